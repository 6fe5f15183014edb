"""Commands that look after the tables: maintain, rebuild, savepoint, forget."""

from __future__ import annotations

import json
from typing import Any

import click

from tidemark.cli import home_options, settings_of


@click.command("maintain")
@home_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.pass_context
def maintain_command(ctx: click.Context, /, as_json: bool, **home: Any) -> None:
    """Compact the tables, delete old versions and rows past their retention; also beside a running pipeline.

    The pipeline does the same by itself, see the settings `maintain_interval_seconds` and
    `vacuum_interval_seconds`.
    """
    from tidemark.pipeline import maintain_tables

    done = maintain_tables(settings_of(ctx, **home))
    if as_json:
        click.echo(json.dumps([entry.as_dict() for entry in done], indent=2))
        return
    for entry in done:
        click.echo(
            f"{entry.table:<26} {entry.files_before:>6,} -> {entry.files_after:,} files,"
            f" {entry.files_deleted:,} old ones deleted ({entry.bytes_freed / 1e6:,.1f} MB),"
            f" {entry.log_files_deleted:,} log entries, {entry.rows_expired:,} rows expired"
            + (f"; {entry.skipped}" if entry.skipped else "")
        )
