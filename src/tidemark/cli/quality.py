"""`tidemark quality`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click

from tidemark.cli import home_options, settings_of


@click.command("quality")
@home_options
@click.option("--since", type=click.DateTime(), help="Only rows written after this time, UTC (default: all).")
@click.option("--table", "names", multiple=True, help="Only this table, such as silver.requests; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option("--master", help="Spark master (default: this machine, one thread per core).")
@click.pass_context
def quality_command(
    ctx: click.Context, /, since: datetime | None, names: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Check the tables against their expectations; exit 3 if a critical one fails."""
    from tidemark.operate.quality.report import lines, raise_critical
    from tidemark.service.quality import check_quality

    since = since.replace(tzinfo=since.tzinfo or UTC) if since else None
    results, docs = check_quality(settings_of(ctx, **options), names, since)
    if as_json:
        click.echo(json.dumps({"docs": str(docs), "results": results}, indent=2, default=str))
    else:
        click.echo("\n".join(lines(results)))
        click.echo(f"Data Docs: {docs}")
    raise_critical(results)
