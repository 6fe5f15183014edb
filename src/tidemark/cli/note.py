"""`tidemark note`."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click

from tidemark.cli import home_options, settings_of


@click.command("note")
@click.argument("text", required=False)
@home_options
@click.option(
    "--at",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S"]),
    help="When it happened, UTC (default: now).",
)
@click.option("--site", default="", help="Only for this site (default: all).")
@click.option("--list", "list_", is_flag=True, help="Show the notes, Tidemark's own too.")
@click.option("--remove", metavar="NOTE", help="Remove a note, by its key as --list shows it.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable, with --list.")
@click.pass_context
def note_command(
    ctx: click.Context,
    /,
    text: str | None,
    at: datetime | None,
    site: str,
    list_: bool,
    remove: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Note TEXT for a time, which the charts show; also beside a running pipeline.

    Tidemark makes notes about itself: a rebuild, another rules_version, an imported archive, a gap of the pipeline.
    """
    from tidemark.home import Home
    from tidemark.local.directories import prepare_home
    from tidemark.operate import notes

    if sum(map(bool, (text, list_, remove))) != 1:
        raise click.UsageError("Give a TEXT, --list or --remove.")
    settings = settings_of(ctx, **options)
    if not list_:
        prepare_home(settings)
    store = Home.of(settings).store
    if text:
        at = at.replace(tzinfo=at.tzinfo or UTC) if at else None
        notes.write(settings, store, [notes.by_hand(text, at, site)])
    elif remove:
        notes.remove(settings, store, remove)
    else:
        listed = [note for note in notes.listed(store) if note.site in ("", site or note.site)]
        lines = [
            f"{note.key}  {note.time:%Y-%m-%d %H:%M}  {note.cause:<9}{note.site and f'{note.site}: '}{note.text}"
            for note in listed
        ]
        rows = [asdict(note) for note in listed]
        click.echo(
            json.dumps(rows, indent=2, default=str) if as_json else "\n".join(lines or ["no notes yet"])
        )
