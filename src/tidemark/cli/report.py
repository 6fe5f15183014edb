"""`tidemark report`: the figures of the dashboard's pages, on the command line."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from datetime import datetime
from typing import Any

import click

from tidemark.cli import home_options, settings_of
from tidemark.errors import SettingError, TableError
from tidemark.local.dashboard import module
from tidemark.settings import Settings

NAMES = (
    "overview", "latency", "sources", "pages", "countries", "errors", "bots", "funnel", "retention", "goals", "paths",
    "alerts", "reported",
)  # fmt: skip
# Widest text and most rows of a table on the terminal.
WIDEST, MOST_ROWS = 80, 50


@click.command("report")
@click.argument("name", metavar="NAME", type=click.Choice(NAMES))
@click.argument("declared", metavar="[FUNNEL]", required=False)
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
    declared: str | None,
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

    NAME is overview, latency, sources, pages, countries, errors, bots, funnel, retention, goals, paths, alerts or
    reported. Goals and FUNNELs are declared in the home's tidemark.toml.

    Reads the tables as they are, beside a running pipeline; needs neither Java nor Spark. A TIME without an offset is
    in UTC, a date is its midnight.

    A FILTER is field=value, field!=value, field~part (contains) or field^start (starts with). Fields: country, host,
    path, status, method, device, browser, os, channel, source, bot_kind, entry_page. Several values of a field are
    separated by |, or the filter is repeated; filters of different fields must all hold. An empty value stands for
    what is missing: bot_kind= keeps people.
    """
    for pair, both in (
        ("--json and --csv", as_json and as_csv),
        ("--from-page and --to-page", from_page and to_page),
    ):
        if both:
            raise click.UsageError(f"{pair} exclude each other.", ctx)
    if (name == "funnel") != (declared is not None):
        raise click.UsageError("The report funnel, and no other, takes the name of a funnel.", ctx)
    if as_of is not None and name != "reported":
        raise click.UsageError("Only the report reported takes --as-of.", ctx)
    if filters and name in ("alerts", "reported"):
        raise click.UsageError(f"The report {name} takes no --filter.", ctx)
    settings = settings_of(ctx, **home)
    asked = {
        "name": declared or "", "by": by, "page": from_page or to_page, "backward": to_page is not None, "as_of": as_of,
    }  # fmt: skip
    made = _made(settings, name, site, start, end, filters, asked)
    if as_json:
        click.echo(json.dumps(made.json, indent=2))
    elif as_csv:
        sys.stdout.buffer.write(module("text").csv(made.table))
    else:
        click.echo("\n".join(_lines(made.table)))


def _made(
    settings: Settings,
    name: str,
    site: str | None,
    start: str | None,
    end: str | None,
    filters: tuple[str, ...],
    asked: dict[str, Any],
) -> Any:
    """The report. Raises SettingError and TableError."""
    reader, selection = module("figures.reader"), module("figures.selection")
    tables = {
        "TIDEMARK_HOME": str(settings.home),
        "TIDEMARK_TABLES_LOCATION": settings.lakehouse.tables_location,
    }
    rows = module("figures.rows").Direct(reader.open_reader({**os.environ, **tables}))
    try:
        chosen = selection.Selection(
            site,
            selection.moment(start) if start else None,
            selection.moment(end) if end else None,
            filters=selection.filters_of(filters),
        )
        extents = module("figures.extents")
        if filling := [name for name in extents.incomplete(rows) if name.startswith("gold.")]:
            click.echo(
                f"The history of {', '.join(filling)} is being filled; counting from silver.", err=True
            )
            chosen = replace(chosen, recount=True)
        known = extents.extents(rows)
        if site is not None and known and site not in known:
            raise SettingError(f"there is no site {site!r}", f"There are: {', '.join(sorted(known)[:20])}.")
        report = module("figures.report")
        declared = module("figures.declared").declared(settings.home)
        asked["as_of"] = selection.moment(asked["as_of"]) if asked["as_of"] else None
        return report.REPORTS[name](rows, chosen, report.Asked(declared, **asked))
    except selection.SelectionError as error:
        raise SettingError(str(error), "`tidemark report --help` shows how to ask.") from error
    except reader.MissingTableError as error:
        raise TableError(
            f"the table {error} in {settings.home}", "Run the pipeline: `tidemark run --once`."
        ) from error
    except reader.ReadError as error:
        raise TableError(str(error), "Try again.") from error


def _lines(table: Any) -> list[str]:
    """The table with aligned columns, numbers to the right; the first MOST_ROWS rows."""
    text = module("text")
    shown = table.head(MOST_ROWS)
    columns = []
    for name in shown.columns:
        cells = [str(name), *(_cell(value, text) for value in shown[name])]
        numbers = all(not isinstance(value, str) for value in shown[name])
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if numbers else cell.ljust(width) for cell in cells])
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    if len(table) > MOST_ROWS:
        lines.append(f"… and {len(table) - MOST_ROWS:,} more rows: --csv or --json prints all")
    return lines


def _cell(value: Any, text: Any) -> str:
    if value is None or value != value:
        return "-"
    if isinstance(value, str):
        return str(text.clipped(text.shown(value), WIDEST))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}"
