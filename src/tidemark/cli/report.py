"""`tidemark report`: the figures of the dashboard's pages, on the command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import click

from tidemark.cli import home_options, settings_of
from tidemark.errors import SettingError, TableError
from tidemark.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

    from tidemark.figures.report import Asked, Report
    from tidemark.figures.retention import By
    from tidemark.figures.selection import Selection

NAMES = (
    "overview", "latency", "sources", "pages", "countries", "networks", "errors", "bots", "ai", "funnel", "retention",
    "goals", "paths", "alerts", "reported",
)  # fmt: skip
# Widest text and most rows of a table on the terminal.
WIDEST, MOST_ROWS = 80, 50


@click.command("report")
@click.argument("name", metavar="NAME", type=click.Choice(NAMES))
@click.argument("funnel", metavar="[FUNNEL]", required=False)
@home_options
@click.option("--site", help="Only this site (default: all).")
@click.option("--from", "start", metavar="TIME", help="First time, ISO 8601 (default: the first line).")
@click.option("--to", "end", metavar="TIME", help="End, itself excluded (default: the newest line).")
@click.option("--filter", "filters", multiple=True, metavar="FILTER", help="See below; repeatable.")
@click.option(
    "--by", type=click.Choice(("day", "week", "month")), default="day", help="Periods of retention."
)
@click.option("--from-page", metavar="PATH", help="Paths from this page on (default: from the entry).")
@click.option("--to-page", metavar="PATH", help="Paths backward from this page.")
@click.option("--as-of", metavar="TIME", help="Figures of days as reported then (default: first).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.pass_context
def report_command(
    ctx: click.Context,
    /,
    name: str,
    funnel: str | None,
    site: str | None,
    start: str | None,
    end: str | None,
    filters: tuple[str, ...],
    by: str,
    from_page: str | None,
    to_page: str | None,
    as_of: str | None,
    as_json: bool,
    as_csv: bool,
    **home: Any,
) -> None:
    """Print a page's figures.

    NAME is overview, latency, sources, pages, countries, networks, errors, bots, ai, funnel, retention, goals, paths,
    alerts or reported. Goals and FUNNELs are declared in the home's tidemark.toml.

    Reads the tables as they are, beside a running pipeline; needs neither Java nor Spark. A TIME without an offset is
    in UTC, a date is its midnight.

    A FILTER is field=value, field!=value, field~part (contains) or field^start (starts with). Fields: country, host,
    path, status, method, device, browser, os, channel, source, bot_kind, bot_verified, network, as_org, city,
    entry_page. Several values of a field are separated by |, or the filter is repeated; filters of different fields
    must all hold. An empty value stands for what is missing: bot_kind= keeps people.
    """
    for pair, both in (
        ("--json and --csv", as_json and as_csv),
        ("--from-page and --to-page", from_page and to_page),
    ):
        if both:
            raise click.UsageError(f"{pair} exclude each other.", ctx)
    if (name == "funnel") != (funnel is not None):
        raise click.UsageError("The report funnel, and no other, takes the name of a funnel.", ctx)
    if as_of is not None and name != "reported":
        raise click.UsageError("Only the report reported takes --as-of.", ctx)
    if filters and name in ("alerts", "reported"):
        raise click.UsageError(f"The report {name} takes no --filter.", ctx)
    settings = settings_of(ctx, **home)
    # Imported here, because pandas takes half a second.
    from tidemark.figures.declared import declared
    from tidemark.figures.report import Asked
    from tidemark.figures.selection import Selection, filters_of, moment
    from tidemark.figures.text import csv

    with _explained(settings):
        selection = Selection(
            site,
            moment(start) if start else None,
            moment(end) if end else None,
            filters=filters_of(filters),
        )
        asked = Asked(
            declared(settings.home),
            funnel or "",
            cast("By", by),
            from_page or to_page,
            backward=to_page is not None,
            as_of=moment(as_of) if as_of else None,
        )
        report = _report(settings, name, selection, asked)
    if as_json:
        click.echo(json.dumps(report.json, indent=2))
    elif as_csv:
        sys.stdout.buffer.write(csv(report.table))
    else:
        click.echo("\n".join(_lines(report.table)))


def _report(settings: Settings, name: str, selection: Selection, asked: Asked) -> Report:
    """The report of this name. Raises SettingError, SelectionError and ReadError."""
    from tidemark.figures.extents import extents, incomplete
    from tidemark.figures.open import open_reader
    from tidemark.figures.report import REPORTS
    from tidemark.figures.rows import Direct

    tables = {
        "TIDEMARK_HOME": str(settings.home),
        "TIDEMARK_TABLES_LOCATION": settings.lakehouse.tables_location,
    }
    rows = Direct(open_reader({**os.environ, **tables}))
    if filling := [table for table in incomplete(rows) if table.startswith("gold.")]:
        click.echo(f"The history of {', '.join(filling)} is being filled; counting from silver.", err=True)
        selection = replace(selection, recount=True)
    known = extents(rows)
    if selection.site is not None and known and selection.site not in known:
        raise SettingError(
            f"there is no site {selection.site!r}", f"There are: {', '.join(sorted(known)[:20])}."
        )
    return REPORTS[name](rows, selection, asked)


@contextmanager
def _explained(settings: Settings) -> Iterator[None]:
    """Raises errors of figures as SettingError and TableError, with the remedy."""
    from tidemark.figures.reader import MissingTableError, ReadError
    from tidemark.figures.selection import SelectionError

    try:
        yield
    except SelectionError as error:
        raise SettingError(str(error), "`tidemark report --help` shows how to ask.") from error
    except MissingTableError as error:
        raise TableError(
            f"the table {error} in {settings.home}", "Run the pipeline: `tidemark run --once`."
        ) from error
    except ReadError as error:
        raise TableError(str(error), "Try again.") from error


def _lines(table: pd.DataFrame) -> list[str]:
    """The table with aligned columns, numbers to the right; the first MOST_ROWS rows."""
    shown = table.head(MOST_ROWS)
    columns = []
    for name in shown.columns:
        cells = [str(name), *(_cell(value) for value in shown[name])]
        numbers = all(not isinstance(value, str) for value in shown[name])
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if numbers else cell.ljust(width) for cell in cells])
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    if len(table) > MOST_ROWS:
        lines.append(f"… and {len(table) - MOST_ROWS:,} more rows: --csv or --json prints all")
    return lines


def _cell(value: Any) -> str:
    from tidemark.figures.text import clipped, shown

    if value is None or value != value:
        return "-"
    if isinstance(value, str):
        return clipped(shown(value), WIDEST)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}"
