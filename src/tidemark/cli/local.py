"""Commands of the local platform: demo, broker, dashboard."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tidemark.cli import settings_of, with_settings
from tidemark.settings import Settings

if TYPE_CHECKING:
    from tidemark.local.broker import Broker

# Lines per second of the demo's live traffic: about the mean of the week before, so that a chart of both shows no jump.
RATE = 0.1


@click.command("demo")
@with_settings
@click.option(
    "--seconds", type=click.FloatRange(min=0), help="Stop this many seconds after all parts are ready."
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=RATE,
    show_default=True,
    help="Lines per second of the live traffic.",
)
@click.option(
    "--chaos",
    is_flag=False,
    flag_value=30.0,
    type=click.FloatRange(min=15),
    metavar="[SECONDS]",
    help="Kill the pipeline every 30 seconds, or as many as given, and compare its counts after each restart.",
)
@click.option("--dashboard/--no-dashboard", "with_dashboard", default=True, help="Show the dashboard.")
def demo_command(
    settings: Settings, seconds: float | None, rate: float, chaos: float | None, with_dashboard: bool
) -> None:
    """Run broker, pipeline, generated traffic and dashboard until Ctrl-C.

    A new home begins with a week of past traffic, which has a campaign, a crawler's visit, a broken link, slow
    searches, visits from AI assistants and an outage to find. A later demo on the same home goes on with its tables.
    """
    from tidemark.cli.demo import run_demo

    status = run_demo(
        settings, sys.stdout, seconds=seconds, with_dashboard=with_dashboard, rate=rate, chaos=chaos
    )
    sys.exit(status)


@click.command("prepare")
@click.option("--again", is_flag=True, help="Also if it was done before.")
@click.pass_context
def prepare_command(ctx: click.Context, /, again: bool) -> None:
    """Fetch the JVM libraries and make later starts faster; once per virtual environment, under a minute."""
    from tidemark.cli.prepare import is_prepared, prepare

    settings = settings_of(ctx)
    if is_prepared(settings.java) and not again:
        click.echo("prepared already")
    elif prepare(settings, lambda what: click.echo(f"{what} ...", err=True)):
        click.echo("prepared: later starts are faster")
    else:
        click.echo(
            "the JVM libraries are installed; this Java cannot archive classes, so starts are not faster"
        )


@click.group("broker")
def broker_command() -> None:
    """Start, stop or check the home's embedded Kafka broker."""


@broker_command.command("start")
@with_settings
@click.option("--foreground", is_flag=True, help="Stay in the foreground, for a service manager.")
@click.option("--node", type=int, hidden=True)
def broker_start(settings: Settings, foreground: bool, node: int | None) -> None:
    """Start the broker in the background; `tidemark broker stop` ends it."""
    from tidemark.local import broker

    if foreground:
        if settings.broker.nodes > 1 and node is None:
            from tidemark.local.parts import run_nodes

            sys.exit(run_nodes(settings, sys.stdout))
        broker.run_in_foreground(settings, node or 1)
    started = broker.start(settings)
    how = "runs already" if started.already_running else "started"
    click.echo(f"broker {how} on {started.bootstrap_servers} (pid {_pids(started)})")


@broker_command.command("stop")
@with_settings
def broker_stop(settings: Settings) -> None:
    """Stop the broker; it keeps its lines."""
    from tidemark.local import broker

    stopped = broker.stop(settings)
    click.echo("broker stopped" if stopped else "broker was not running")


@broker_command.command("status")
@with_settings
def broker_status(settings: Settings) -> None:
    """Show whether the broker runs; the exit status is 0 if it answers, else 1."""
    from tidemark.local import broker

    running = broker.status(settings)
    if running is None:
        click.echo("broker is not running")
    elif broker.answers(running.bootstrap_servers, timeout=5):
        click.echo(f"broker runs on {running.bootstrap_servers} (pid {_pids(running)})")
        return
    else:
        click.echo(f"broker does not answer on {running.bootstrap_servers} (pid {_pids(running)})")
    sys.exit(1)


def _pids(broker: Broker) -> str:
    return ", ".join(map(str, broker.pids))


@click.command("dashboard")
@with_settings
def dashboard_command(settings: Settings) -> None:
    """Serve the dashboard of a home's tables."""
    from tidemark.local import dashboard

    dashboard.check_port(settings.dashboard)
    click.echo(f"dashboard of {settings.home}", err=True)
    dashboard.run_in_foreground(settings)
