"""`tidemark run` and `tidemark status`."""

from __future__ import annotations

import json
import logging

import click

from tidemark.cli import with_settings
from tidemark.settings import Settings

log = logging.getLogger("tidemark.run")


@click.command("run")
@with_settings
@click.option("--once", is_flag=True, help="Process all lines in Kafka into every table, then exit.")
@click.option("--master", help="Spark master (default: this machine, one thread per core).")
@click.option(
    "--wait", default=5.0, show_default=True, type=click.FloatRange(min=0), help="Seconds to wait for Kafka."
)
def run_command(settings: Settings, once: bool, wait: float) -> None:
    """Run the pipeline: from Kafka through bronze, silver and gold, until stopped."""
    from tidemark import logs
    from tidemark.service.run import run_pipeline

    logs.configure(settings.watching)
    log.info("pipeline on %s", settings.home)
    run_pipeline(settings, once=once, wait=wait)
    log.info("all caught up" if once else "stopped")


@click.command("status")
@with_settings
@click.option("--json", "as_json", is_flag=True, help="Machine-readable, for monitoring.")
def status_command(settings: Settings, as_json: bool) -> None:
    """Show the running parts and each flow's lag, rate and freshness."""
    from tidemark.operate.status import describe, lines

    state = describe(settings)
    click.echo(json.dumps(state, indent=2) if as_json else "\n".join(lines(state)))
