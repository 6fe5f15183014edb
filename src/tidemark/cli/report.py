"""`tidemark report`: the figures of the dashboard's pages, on the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tidemark.cli import home_options, settings_of
from tidemark.errors import SettingError, TableError
from tidemark.figures.report_specs import BY_NAME, OWN
from tidemark.figures.spec import COMMON, Parameter
from tidemark.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

    from tidemark.figures.reader import Reader

# Widest text and most rows of a table on the terminal.
WIDEST, MOST_ROWS = 80, 50


_ARGUMENTS = " ".join(
    f"ARGUMENT of {spec.name}: {parameter.about}"
    for spec in BY_NAME.values()
    for parameter in spec.parameters
    if parameter.argument
)


def _options(command: Any) -> Any:
    """Adds an option for each parameter of the reports that is not given by position."""
    for parameter in reversed([*COMMON, *(p for p in OWN if not p.argument)]):
        command = click.option(
            parameter.option,
            parameter.name,
            help=parameter.about,
            multiple=parameter.repeated,
            metavar=_metavar(parameter),
            type=click.Choice(parameter.choices) if parameter.choices else str,
        )(command)
    return command


def _metavar(parameter: Parameter) -> str | None:
    if parameter.choices:
        return None
    return "TIME" if parameter.type == "time" else "FILTER" if parameter.repeated else "TEXT"


@click.command(
    "report",
    help=f"""Print a page's figures.

    NAME is {", ".join(BY_NAME)}. {_ARGUMENTS} Goals and funnels are declared in the home's tidemark.toml.

    Reads the tables as they are, beside a running pipeline; needs neither Java nor Spark. Without a range, figures are
    of all lines.
    """,
)
@click.argument("name", metavar="NAME", type=click.Choice(tuple(BY_NAME)))
@click.argument("argument", metavar="[ARGUMENT]", required=False)
@home_options
@_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.pass_context
def report_command(
    ctx: click.Context,
    /,
    name: str,
    argument: str | None,
    as_json: bool,
    as_csv: bool,
    home: Any,
    bootstrap_servers: str | None,
    **options: Any,
) -> None:
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other.", ctx)
    values = {p: v if isinstance(v, tuple) else (v,) for p, v in options.items() if v not in (None, ())}
    if argument is not None:
        needed = BY_NAME[name].argument
        if not needed:
            raise click.UsageError(f"The report {name} takes no ARGUMENT.", ctx)
        values[needed] = (argument,)
    settings = settings_of(ctx, home=home, bootstrap_servers=bootstrap_servers)
    # Imported here, because pandas takes half a second.
    from tidemark.figures.declared import declared
    from tidemark.figures.question import ParameterError, question
    from tidemark.figures.report import json_text, report
    from tidemark.figures.rows import Rows
    from tidemark.figures.text import csv

    with explained_figures(settings):
        try:
            request = question(name, values, declared(settings.home))
        except ParameterError as error:
            raise click.UsageError(str(error), ctx) from error
        result = report(Rows(reader_of(settings)), request)
    if result.filling:
        click.echo(
            f"The history of {', '.join(result.filling)} is being filled; counting from silver.", err=True
        )
    if as_json:
        click.echo(json_text(result.json), nl=False)
    elif as_csv:
        sys.stdout.buffer.write(csv(result.table, printable=sys.stdout.isatty()))
    else:
        click.echo("\n".join(_lines(result.table)))


def reader_of(settings: Settings) -> Reader:
    """The tables of a home, or the warehouse that the environment names."""
    from tidemark.figures.open import open_reader

    return open_reader(
        {
            **os.environ,
            "TIDEMARK_HOME": str(settings.home),
            "TIDEMARK_TABLES_LOCATION": settings.lakehouse.tables_location,
        }
    )


@contextmanager
def explained_figures(settings: Settings) -> Iterator[None]:
    """Raises errors of figures as SettingError and TableError, with the remedy."""
    from tidemark.figures.reader import MissingTableError, ReadError
    from tidemark.figures.selection import SelectionError

    try:
        yield
    except SelectionError as error:
        remedy = error.remedy or "`tidemark report --help` shows how to ask."
        raise SettingError(error.problem, remedy) from error
    except MissingTableError as error:
        raise TableError(
            f"the table {error} in {settings.home}", "Run the pipeline: `tidemark run --once`."
        ) from error
    except ReadError as error:
        raise TableError(error.problem, error.remedy or "Try again.") from error


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
    import pandas as pd

    from tidemark.figures.text import clipped, shown

    if value is None or value is pd.NA or value != value:
        return "-"
    if isinstance(value, str):
        return clipped(shown(value), WIDEST)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}"
