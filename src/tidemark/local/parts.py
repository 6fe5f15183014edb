"""The processes of a home as parts of a supervisor."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.local import dashboard
from tidemark.local.records import live_record
from tidemark.local.supervisor import Part
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
