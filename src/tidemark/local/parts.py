"""The processes of a home as parts of a supervisor, with all settings from their environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidemark.local import broker, broker_setup, dashboard
from tidemark.local.process import live_record
from tidemark.local.supervisor import Part
from tidemark.settings import ENVIRONMENT_PREFIX, Settings


def broker_part(settings: Settings, stop_order: int) -> Part:
    """The embedded broker. Its port must be set."""
    servers = broker.bootstrap_servers(settings)
    return _part(
        settings, "broker", "broker", "start", "--foreground",
        log=broker_setup.output_file(settings), ready=lambda: broker.answers(servers, 0.2),
        stop_order=stop_order,
    )  # fmt: skip


def pipeline_part(settings: Settings, stop_order: int, wait: float) -> Part:
    """The pipeline, which waits up to `wait` seconds for Kafka."""
    path = settings.run_directory / "pipeline.json"
    return _part(
        settings, "pipeline", "run", "--wait", f"{wait:g}",
        log=settings.logs / "pipeline.log", ready=lambda: (live_record(path) or {}).get("state") == "running",
        stop_order=stop_order, stop_seconds=5.0,
    )  # fmt: skip


def dashboard_part(settings: Settings, stop_order: int) -> Part:
    return _part(
        settings, "dashboard", "dashboard",
        log=settings.logs / "dashboard.log", ready=lambda: dashboard.is_healthy(settings),
        stop_order=stop_order, stop_seconds=1.0,
    )  # fmt: skip


def _part(
    settings: Settings, name: str, *arguments: str, log: Path, ready: Callable[[], bool], **stop: Any
) -> Part:
    others = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    return Part(
        name=name,
        command=[sys.executable, "-m", "tidemark", *arguments],
        log=log,
        ready=ready,
        environment=others | settings.environment(),
        **stop,
    )
