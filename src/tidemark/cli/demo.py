"""The demo: broker, pipeline, a week of past and then live traffic, and dashboard of one home on one machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TextIO

from tidemark.cli.chaos import Chaos
from tidemark.cli.week import START_SECONDS
from tidemark.errors import HomeBusyError
from tidemark.kafka import client as kafka
from tidemark.local import broker, broker_setup, dashboard
from tidemark.local.jars import broker_jars, spark_jars
from tidemark.local.java import require_java
from tidemark.local.process import live_record, locked, prepare_home
from tidemark.local.supervisor import Part, supervise
from tidemark.settings import Settings
from tidemark.store import lakehouse

# Lines per second of the live traffic: few enough that charts still show the week beside it.
RATE = 3.0


def run_demo(
    settings: Settings,
    out: TextIO,
    *,
    seconds: float | None = None,
    with_dashboard: bool = True,
    rate: float = RATE,
    chaos: float | None = None,
) -> int:
    """Runs all parts of the home until interrupted, or for `seconds` once all are ready; see `supervise`. `rate` is
    that of the live traffic, in lines per second. With `chaos` the pipeline is killed every so many seconds.

    A running Kafka, the home's own broker or the one in the settings, is used and left running.
    Returns the exit status, 1 if tables were wrong after a kill. Raises PlatformError for missing requirements of the
    machine, HomeBusyError if the home is in use, and KafkaError if the Kafka in the settings does not answer. It has
    started nothing then.
    """
    require_java()
    prepare_home(settings)
    with locked(settings.run_directory / "demo.lock", wait=False) as ours:
        if not ours or live_record(settings.run_directory / "pipeline.json"):
            raise HomeBusyError(
                f"a pipeline runs already on {settings.home}",
                "Stop it, or name another home with --home and other ports.",
            )
        starts_broker = settings.kafka.uses_embedded_broker and broker.status(settings) is None
        if starts_broker:
            broker.check_port(settings)
        if not settings.kafka.uses_embedded_broker:
            kafka.require_reachable(settings.kafka, timeout=10)
        if with_dashboard:
            dashboard.check_port(settings.dashboard)
        # Done here, where progress can be shown, not in the parts.
        spark_jars(settings.java)
        if starts_broker:
            broker_jars(settings.java)
        parts = [_pipeline(settings), _traffic(settings, rate)]
        if starts_broker:
            parts.insert(0, _broker(settings))
        if with_dashboard:
            parts.append(_dashboard(settings))
        out.write(f"Home {settings.home}; Ctrl-C stops.\n")
        killing = Chaos(settings, chaos) if chaos else None
        with killing or nullcontext():
            status = supervise(parts, out, seconds, killing.news if killing else tuple)
        if killing is None:
            return status
        out.writelines(f"{text}\n" for text in [*killing.news(), killing.summary()])
        return 1 if killing.wrong else status


def _broker(settings: Settings) -> Part:
    def ready() -> bool:
        running = broker.status(settings)
        return running is not None and broker.answers(running.bootstrap_servers)

    return Part(
        name="broker",
        command=_tidemark(settings, "broker", "start", "--foreground"),
        log=broker_setup.output_file(settings),
        ready=ready,
        detail=lambda: broker.bootstrap_servers(settings),
        stop_order=4,
        # The others wait for Kafka by themselves, if they can know its address before.
        awaited=settings.broker.port == 0 or settings.broker.nodes > 1,
    )


def _pipeline(settings: Settings) -> Part:
    def state() -> str:
        record = live_record(settings.run_directory / "pipeline.json")
        return str(record.get("state", "")) if record else ""

    return Part(
        name="pipeline",
        command=_tidemark(settings, "run", "--wait", f"{START_SECONDS:g}"),
        log=settings.logs / "pipeline.log",
        ready=lambda: state() == "running",
        detail=lambda: f"tables in {lakehouse.of(settings).name}",
        stop_order=2,
        stop_seconds=5.0,
        awaited=False,
    )


def _traffic(settings: Settings, rate: float) -> Part:
    pace = ["--late", "0.05", "--malformed", "0.02", "--rate", f"{rate:g}"]
    return Part(
        name="traffic",
        command=_tidemark(settings, "generate", "--demo", *pace),
        log=settings.logs / "traffic.log",
        ready=lambda: live_record(settings.run_directory / "traffic.json") is not None,
        detail=lambda: f"{rate:g} lines/s, after a week of past traffic",
        stop_order=1,
        stop_seconds=1.5,
        awaited=False,
    )


def _dashboard(settings: Settings) -> Part:
    return Part(
        name="dashboard",
        command=_tidemark(settings, "dashboard"),
        log=settings.logs / "dashboard.log",
        ready=lambda: dashboard.is_healthy(settings),
        detail=lambda: dashboard.url(settings),
        stop_order=3,
        stop_seconds=1.0,
        # Its first page explains the demo.
        environment={**os.environ, "TIDEMARK_DEMO": "1"},
    )


def _tidemark(settings: Settings, *arguments: str) -> Sequence[str]:
    servers = (
        ["--bootstrap-servers", settings.kafka.bootstrap_servers] if settings.kafka.bootstrap_servers else []
    )
    return [sys.executable, "-m", "tidemark", "--home", str(settings.home), *servers, *arguments]
