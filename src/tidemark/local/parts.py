"""The processes of a home as parts of a supervisor."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from tidemark.local import dashboard
from tidemark.local.directories import prepare_home
from tidemark.local.records import live_record
from tidemark.local.supervisor import Part, supervise
from tidemark.settings import ENVIRONMENT_PREFIX, Settings


@dataclass(frozen=True)
class Launch:
    """How the processes get their settings: in the first `options` of their commands, or by `environment`, which
    replaces that of this process."""

    options: Sequence[str] = ()
    environment: dict[str, str] | None = None

    @classmethod
    def by_options(cls, settings: Settings) -> Launch:
        """Home and Kafka in the command line, the rest as this process has it."""
        servers = settings.kafka.bootstrap_servers
        named = ["--bootstrap-servers", servers] if servers else []
        return cls(options=["--home", str(settings.home), *named])

    @classmethod
    def by_environment(cls, settings: Settings) -> Launch:
        """All settings as they are here, whatever this process's environment says."""
        others = {
            name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)
        }
        return cls(environment=others | settings.environment())

    def command(self, *arguments: str) -> Sequence[str]:
        return [sys.executable, "-m", "tidemark", *self.options, *arguments]


def broker_part(settings: Settings, launch: Launch, stop_order: int) -> Part:
    """The embedded broker."""
    from tidemark.local import broker, broker_setup  # a view has none

    def ready() -> bool:
        running = broker.status(settings)
        return running is not None and broker.answers(running.bootstrap_servers)

    return Part(
        name="broker",
        command=launch.command("broker", "start", "--foreground"),
        environment=launch.environment,
        log=broker_setup.output_file(settings),
        ready=ready,
        detail=lambda: broker.bootstrap_servers(settings),
        stop_order=stop_order,
        # The others wait for Kafka by themselves, if they can know its address before.
        awaited=settings.broker.port == 0 or settings.broker.nodes > 1,
    )


def run_nodes(settings: Settings, out: TextIO) -> int:
    """Runs all nodes of the embedded broker in the foreground, each in a process of its own, until interrupted, and
    restarts one that ends; returns the exit status of `supervise`.

    Raises PlatformError if a port is taken or the home cannot be written.
    """
    from tidemark.local import broker, broker_setup

    prepare_home(settings)
    broker.check_port(settings)
    launch = Launch(["--home", str(settings.home)])
    parts = []
    for number in range(1, settings.broker.nodes + 1):
        name = broker_setup.Node(number, 0, 0).part()
        command = launch.command("broker", "start", "--foreground", "--node", str(number))
        log = broker_setup.output_file(settings, name)
        # A single node never answers, because it needs others for a quorum.
        parts.append(Part(name, command, log, ready=lambda: True, stop_seconds=3.0))
    return supervise(parts, out)


def pipeline_part(settings: Settings, launch: Launch, stop_order: int, wait: float) -> Part:
    """The pipeline, which waits up to `wait` seconds for Kafka."""
    path = settings.run_directory / "pipeline.json"
    return Part(
        name="pipeline",
        command=launch.command("run", "--wait", f"{wait:g}"),
        environment=launch.environment,
        log=settings.logs / "pipeline.log",
        ready=lambda: (live_record(path) or {}).get("state") == "running",
        stop_order=stop_order,
        stop_seconds=5.0,
        awaited=False,
    )


def dashboard_part(settings: Settings, launch: Launch, stop_order: int) -> Part:
    return Part(
        name="dashboard",
        command=launch.command("dashboard"),
        environment=launch.environment,
        log=settings.logs / "dashboard.log",
        ready=lambda: dashboard.is_healthy(settings),
        detail=lambda: dashboard.url(settings),
        stop_order=stop_order,
        stop_seconds=1.0,
    )
