"""`python -m examples.intrusion.watch --home DIR`: watches the log of a Tidemark that runs there, until Ctrl-C."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from deltalake import DeltaTable

from examples.intrusion.job import ALERTS_TOPIC, job
from examples.intrusion.requests import REQUESTS, from_table, from_topic
from examples.kit.run import run_job
from tidemark.errors import TableError, TidemarkError
from tidemark.kafka import client as kafka
from tidemark.local.broker import located
from tidemark.settings import load
from tidemark.store import lakehouse

SOURCES = {"table": from_table, "topic": from_topic}


@click.command()
@click.option("--home", type=click.Path(path_type=Path), required=True, help="The home of that Tidemark.")
@click.option(
    "--source",
    type=click.Choice(list(SOURCES)),
    default="table",
    show_default=True,
    help="Read the pipeline's table of requests, or the lines in Kafka.",
)
def main(home: Path, source: str) -> None:
    """Raise alerts on the access log of a Tidemark that runs, to its Kafka and as tables of its home."""
    try:
        watch(home, source)
    except TidemarkError as error:
        click.echo(f"intrusion: {error}", err=True)
        sys.exit(error.exit_code)


def watch(home: Path, source: str) -> None:
    """Runs the job until the process is stopped. Raises TidemarkError if there is nothing to watch."""
    settings = load({"home": home})
    path = lakehouse.of(settings).path(REQUESTS)
    if source == "table" and not DeltaTable.is_deltatable(path):
        raise TableError(
            f"there is no table {REQUESTS} at {path}",
            "Start the pipeline first, with `tidemark run` or demo.",
        )
    kafka.require_reachable(located(settings).kafka)
    click.echo(f"alerts go to the topic {ALERTS_TOPIC}; Ctrl-C ends it")
    run_job(job(SOURCES[source]), settings)


if __name__ == "__main__":
    main()
