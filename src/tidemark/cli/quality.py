"""`tidemark quality`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import click

from tidemark.cli import with_settings
from tidemark.settings import Settings


@click.command("quality")
@with_settings
@click.option("--since", type=click.DateTime(), help="Only rows written after this time, UTC (default: all).")
@click.option("--table", "names", multiple=True, help="Only this table, such as silver.requests; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option("--master", help="Spark master (default: this machine, one thread per core).")
def quality_command(
    settings: Settings, since: datetime | None, names: tuple[str, ...], as_json: bool
) -> None:
    """Check the tables against their expectations; exit 3 if a critical one fails."""
    from tidemark.operate.quality.report import lines, raise_critical
    from tidemark.service.quality import check_quality

    since = since.replace(tzinfo=since.tzinfo or UTC) if since else None
    results, docs = check_quality(settings, names, since)
    if as_json:
        click.echo(json.dumps({"docs": str(docs), "results": results}, indent=2, default=str))
    else:
        click.echo("\n".join(lines(results)))
        click.echo(f"Data Docs: {docs}")
    raise_critical(results)
