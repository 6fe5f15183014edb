"""`tidemark data`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemark.cli import home_options, settings_of, with_settings
from tidemark.settings import Settings

if TYPE_CHECKING:
    from tidemark.parse.inventory import Data
    from tidemark.service.data import Update


@click.group("data", invoke_without_command=True)
@home_options
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.pass_context
def data_command(ctx: click.Context, /, as_json: bool, **home: Any) -> None:
    """List the data by which lines are enriched: networks, databases of addresses, bots, sources.

    Each with its day or version, source, licence, number of entries, and whether it is of the installation, of the
    home or of a setting. Nothing is fetched.
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj |= {name: value for name, value in home.items() if value is not None}
        return
    from tidemark.parse.inventory import inventory

    data = inventory(settings_of(ctx, **home))
    if as_json:
        click.echo(json.dumps([asdict(each) for each in data], indent=2))
    else:
        click.echo("\n".join(_table(data)))


@data_command.command("update")
@click.argument("path", type=click.Path(path_type=Path))
@with_settings
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def data_update(settings: Settings, path: Path, dry_run: bool, as_json: bool) -> None:
    """Take newer data from PATH, a file or a directory, into the home.

    PATH has MMDB files, lists of networks (.tsv), or files that operators publish, in any text format: named as there
    or like the list, or in a folder with its name. All files are validated first; if one cannot be used, nothing
    changes. A running pipeline takes the data over. Lines that were read before keep their values: the command says how
    many of them would have others, and `tidemark rebuild silver.requests` gives these to them.
    """
    from tidemark.service.data import update

    done = update(settings, path, dry_run=dry_run)
    if as_json:
        click.echo(json.dumps(_object(done), indent=2))
    else:
        click.echo("\n".join(_lines(done)))
    if dry_run:
        click.echo("dry run: nothing was changed", err=True)


def _table(data: Sequence[Data]) -> Iterator[str]:
    head = ("data", "kind", "date", "entries", "from", "licence", "source")
    rows = [
        (
            each.name,
            each.kind,
            each.date,
            "" if each.entries is None else f"{each.entries:,}",
            each.where,
            each.licence,
            each.source,
        )
        for each in data
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _object(done: Update) -> dict[str, Any]:
    return {
        "data": [
            {
                "now": asdict(change.now),
                "before": asdict(change.before) if change.before else None,
                "left_out": list(change.left_out),
            }
            for change in done.changes
        ],
        "rules_version": {"now": done.version, "before": done.version_before},
        "lines": done.of,
        "lines_with_another": done.lines,
    }


def _lines(done: Update) -> Iterator[str]:
    for change in done.changes:
        was = f", before {change.before.date} with {change.before.entries:,}" if change.before else ", new"
        yield f"{change.now.name}: {change.now.date} with {change.now.entries:,} entries{was}"
        if number := len(change.left_out):
            networks = "network" if number == 1 else "networks"
            yield f"left out: {number:,} reserved {networks}, {', '.join(change.left_out)}"
    if done.version == done.version_before:
        yield "the data is the same: rules_version stays"
        return
    now, before = done.version.split(", "), done.version_before.split(", ")
    yield "rules_version: " + ", ".join(part for part in now if part not in before)
    if done.lines is None:
        return
    if not done.lines:
        yield f"none of the {done.of:,} lines of history would have another value"
        return
    for name, lines in sorted(done.lines.items(), key=lambda each: -each[1]):
        yield f"{lines:,} lines of {done.of:,} would have another {name}"
    yield (
        "history keeps its values until `tidemark rebuild silver.requests`; with --dry-run that says what it would"
        " change in every table, also by other clients behind proxies"
    )
