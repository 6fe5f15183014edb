"""`tidemark export`."""

from __future__ import annotations

from typing import Any, cast

import click

from tidemark.cli import home_options, settings_of
from tidemark.cli.report import explained_figures, reader_of
from tidemark.figures.report_specs import BY_NAME
from tidemark.objects.store import is_url

FORMATS = ("parquet", "csv", "jsonl")


@click.command("export")
@click.argument("table")
@home_options
@click.option(
    "--to",
    "targets",
    required=True,
    multiple=True,
    metavar="DIR_OR_URL",
    help="Directory, or URL such as s3://bucket/prefix/. Given twice, the one that is a time is the end of the range.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="parquet", show_default=True, help="File format."
)
@click.option("--site", help="Only this site (default: all).")
@click.option("--from", "start", metavar="TIME", help="First time, ISO 8601, UTC (default: the first row).")
@click.option(
    "--until", "end", metavar="TIME", help="End, itself excluded (default: the last row); also --to TIME."
)
@click.option(
    "--filter", "filters", multiple=True, metavar="FILTER", help="Condition such as country=DE; repeatable."
)
@click.option("--endpoint", metavar="URL", default="", help="Server of the object store, such as MinIO.")
@click.option("--overwrite", is_flag=True, help="Replace a file that exists.")
@click.pass_context
def export_command(
    ctx: click.Context,
    /,
    table: str,
    targets: tuple[str, ...],
    form: str,
    site: str | None,
    start: str | None,
    end: str | None,
    filters: tuple[str, ...],
    endpoint: str,
    overwrite: bool,
    **options: Any,
) -> None:
    """Write a TABLE, such as gold.pages, or the rows of a report, such as pages or explain:not_found, to a file.

    Reads beside a running pipeline, some rows at a time; needs neither Java nor Spark. The file appears when it is
    complete.
    """
    from tqdm import tqdm

    from tidemark.figures.reader import again
    from tidemark.service import export

    settings = settings_of(ctx, **options)
    target, end = _target(ctx, targets, end)
    if endpoint and not is_url(target):
        raise click.UsageError("--endpoint is for URLs of object stores.", ctx)
    values = {
        name: given
        for name, given in {
            "site": (site,),
            "from": (start,),
            "to": (end,),
            "filter": filters,
        }.items()
        if any(given)
    }
    written = 0
    with explained_figures(settings), tqdm(unit=" rows", unit_scale=True, disable=None, leave=False) as bar:

        def progress(rows: int) -> None:
            nonlocal written
            written += rows
            bar.update(rows)

        reader = reader_of(settings)

        @again
        def write() -> str:
            nonlocal written
            written = 0
            bar.reset()
            return export.export(
                _rows(reader, settings.home, table, values),
                table.replace(":", "-").replace("/", "."),
                target,
                cast("export.Format", form),
                overwrite=overwrite,
                endpoint=endpoint,
                progress=progress,
            )

        where = write()
    click.echo(f"{written:,} rows of {table}: {where}")


def _target(ctx: click.Context, targets: tuple[str, ...], end: str | None) -> tuple[str, str | None]:
    """The directory or URL, and the end of the range."""
    from tidemark.figures.selection import SelectionError, moment

    def is_time(text: str) -> bool:
        try:
            moment(text)
        except SelectionError:
            return False
        return True

    times = [text for text in targets if is_time(text)] if len(targets) > 1 else []
    places = [text for text in targets if text not in times]
    if len(places) != 1 or len(times) > 1 or (times and end):
        raise click.UsageError("Give --to once with a directory or URL, and the end of the range once.", ctx)
    return places[0], times[0] if times else end


def _rows(reader: Any, home: Any, table: str, values: dict[str, Any]) -> Any:
    """The rows of a table or a report. Raises as `service.export.rows_of` and `figures.report.report`."""
    from tidemark.figures.declared import declared
    from tidemark.figures.question import question, selection_of
    from tidemark.figures.report import report
    from tidemark.figures.rows import Rows
    from tidemark.service import export

    name, _, argument = table.partition(":")
    if name not in BY_NAME:
        return export.rows_of(reader, table, selection_of(values))
    if argument:
        values = {**values, BY_NAME[name].argument or "name": (argument,)}
    return export.of_frame(report(Rows(reader), question(name, values, declared(home))).table)
