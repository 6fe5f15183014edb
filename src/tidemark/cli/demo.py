"""The demo: broker, pipeline, a week of past and then live traffic, and dashboard of one home on one machine."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from typing import TextIO

from tidemark.cli import demo_settings
from tidemark.cli.chaos import Chaos
from tidemark.cli.week import START_SECONDS
from tidemark.errors import HomeBusyError
from tidemark.kafka import client as kafka
from tidemark.local import broker, dashboard
from tidemark.local.directories import prepare_home
from tidemark.local.jars import broker_jars, spark_jars
from tidemark.local.java import require_java
from tidemark.local.locks import locked
from tidemark.local.parts import Launch, broker_part, dashboard_part, pipeline_part
from tidemark.local.records import live_record
from tidemark.local.supervisor import Part, supervise
from tidemark.settings import Settings
from tidemark.store import lakehouse


def run_demo(
    settings: Settings,
    out: TextIO,
    *,
    seconds: float | None = None,
    with_dashboard: bool = True,
    rate: float,
    chaos: float | None = None,
) -> int:
    """Runs all parts of the home until interrupted, or for `seconds` once all are ready; see `supervise`. `rate` is
    that of the live traffic, in lines per second. With `chaos` the pipeline is killed every so many seconds.

    A running Kafka, the home's own broker or the one in the settings, is used and left running.
    Returns the exit status, 1 if tables were wrong after a kill. Raises PlatformError for missing requirements of the
    machine, HomeBusyError if the home is in use, KafkaError if the Kafka in the settings does not answer, and
    SettingError for an address where everybody could see the dashboard. It has started nothing then.
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
            dashboard.check_login(settings)
        demo_settings.declare(settings)
        # Done here, where progress can be shown, not in the parts.
        spark_jars(settings.java)
        if starts_broker:
            broker_jars(settings.java)
        launch = Launch.by_options(settings)
        parts = [broker_part(settings, launch, stop_order=4)] if starts_broker else []
        pipeline = pipeline_part(settings, launch, stop_order=2, wait=START_SECONDS)
        parts += [
            replace(pipeline, detail=lambda: f"tables in {lakehouse.of(settings).name}"),
            _traffic(settings, launch, rate),
        ]
        if with_dashboard:
            # Its first page explains the demo.
            explaining = replace(launch, environment={**os.environ, "TIDEMARK_DEMO": "1"})
            parts.append(dashboard_part(settings, explaining, stop_order=3))
        out.write(f"Home {settings.home}; Ctrl-C stops.\n")
        killing = Chaos(settings, chaos) if chaos else None
        with killing or nullcontext():
            status = supervise(parts, out, seconds, killing.news if killing else tuple)
        if killing is None:
            return status
        out.writelines(f"{text}\n" for text in [*killing.news(), killing.summary()])
        return 1 if killing.wrong else status


def _traffic(settings: Settings, launch: Launch, rate: float) -> Part:
    pace = ["--request-time", "--late", "0.05", "--malformed", "0.02", "--rate", f"{rate:g}"]
    return Part(
        name="traffic",
        command=launch.command("generate", "--demo", *pace),
        log=settings.logs / "traffic.log",
        ready=lambda: live_record(settings.run_directory / "traffic.json") is not None,
        detail=lambda: f"{rate:g} lines/s, after a week of past traffic",
        stop_order=1,
        stop_seconds=1.5,
        awaited=False,
    )
