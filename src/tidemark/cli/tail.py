"""`tidemark tail`."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from tidemark.cli import with_settings
from tidemark.cli.report import explained_figures, reader_of
from tidemark.settings import Settings

_PAUSE_SECONDS = 0.5
# Most lines at once, so that a terminal keeps up; JSON has all.
_MOST = 200
_LONGEST = 100
_COLORS = {"2": "green", "3": "cyan", "4": "yellow", "5": "red"}


@click.command("tail")
@with_settings
@click.option("--site", help="Only this site (default: all).")
@click.option(
    "--filter", "filters", multiple=True, metavar="FILTER", help="Condition such as status^5; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option(
    "--seconds", type=click.FloatRange(min=0), help="Stop after so long (default: when interrupted)."
)
def tail_command(
    settings: Settings, site: str | None, filters: tuple[str, ...], as_json: bool, seconds: float | None
) -> None:
    """Show lines as the running pipeline reads them, with their rate.

    A line shows its time (UTC), site, country, status, method, path, duration, and the browser or bot and the source.
    Without a filter, rejected lines show with their reasons. Control characters of log lines are escaped.
    """
    from tidemark.figures.selection import filters_of
    from tidemark.service.tail import Tail
    from tidemark.store import lakehouse

    until = None if seconds is None else time.monotonic() + seconds
    with explained_figures(settings), suppress(KeyboardInterrupt):
        tail = Tail(reader_of(settings), lakehouse.of(settings), site, filters_of(filters))
        while True:
            rows = tail.new(time.monotonic())
            _clear()
            if as_json:
                for row in rows:
                    click.echo(json.dumps(row, default=_plain))
            else:
                if len(rows) > _MOST:
                    click.secho(f"… {len(rows) - _MOST:,} more lines", dim=True)
                for row in rows[-_MOST:]:
                    click.echo(line(row))
            sys.stdout.flush()
            _status(f"{tail.rate:,.1f} lines/s")
            if until is not None and time.monotonic() >= until:
                break
            time.sleep(_PAUSE_SECONDS)
    _clear()


def line(row: dict[str, Any]) -> str:
    """A row for the terminal, with colours and without control characters of the log."""
    from tidemark.figures.text import shown

    def text(name: str, most: int = _LONGEST) -> str:
        value = shown(row[name])
        return value if len(value) <= most else f"{value[: most - 1]}…"

    if "reasons" in row:
        reasons = ", ".join(map(shown, row["reasons"]))
        when = click.style(f"{row['rejected_at']:%H:%M:%S}", dim=True)
        return f"{when} {text('site', 20)} {click.style(f'rejected ({reasons})', fg='red')} {text('value')}"
    status = "---" if row["status"] is None else f"{row['status']:.0f}"
    query = f"?{text('query', 60)}" if row["query"] else ""
    duration = "" if row["duration_us"] is None else f" {row['duration_us'] / 1000:,.0f} ms"
    who = click.style(text("bot_name", 30), fg="magenta") if row["bot_name"] else text("browser", 30)
    source = f" from {text('source', 40)}" if row["source"] and row["channel"] != "internal" else ""
    when = click.style(f"{row['event_time']:%H:%M:%S}", dim=True)
    return (
        f"{when} {text('site', 20)} {text('country', 2)} "
        f"{click.style(status, fg=_COLORS.get(status[0]), bold=True)} {text('method', 10)} {text('path')}"
        f"{click.style(query, dim=True)}{click.style(duration, dim=True)}  {who}{click.style(source, dim=True)}"
    )


def _clear() -> None:
    _status("")


def _status(text: str) -> None:
    """Shows the rate below the lines, where a terminal is."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _plain(value: Any) -> Any:
    from tidemark.figures.text import shown

    if isinstance(value, bytes):
        return shown(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
