"""`tidemark alerts`."""

from __future__ import annotations

import json
import sys

import click

from tidemark.cli import with_settings
from tidemark.settings import Settings


@click.command("alerts")
@with_settings
@click.option("--rule", help="Only this rule of tidemark.toml.")
@click.option("--site", help="Only this site.")
@click.option(
    "--last", default=50, show_default=True, type=click.IntRange(min=0), help="Newest alerts to show."
)
@click.option("--test", "test", is_flag=True, help="Send a test message to the rules' targets instead.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def alerts_command(
    settings: Settings, rule: str | None, site: str | None, last: int, test: bool, as_json: bool
) -> None:
    """Show how every alert rule stands and the newest alerts, times in UTC; or test the targets.

    The pipeline evaluates and delivers. Exits 1 if a target does not take the test message.
    """
    from tidemark.home import Home
    from tidemark.operate.alerts import report

    if test:
        taken = report.tried(settings, rule)
        lines = [f"{target}: {'delivered' if ok else 'failed'}" for target, ok in taken.items()]
        click.echo(json.dumps(taken, indent=2) if as_json else "\n".join(lines))
        sys.exit(0 if all(taken.values()) else 1)
    alerts = report.listed(Home.of(settings).store, rule, site, last)
    click.echo(json.dumps(alerts, indent=2, default=str) if as_json else "\n".join(report.lines(alerts)))
