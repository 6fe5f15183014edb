"""The options of commands that say which lines are read, and what they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from tidemark.cli import settings_of
from tidemark.importing.object_sources import Objects
from tidemark.kafka.records import DEFAULT_SITE
from tidemark.objects.listing import Selection
from tidemark.objects.store import is_url, open_store
from tidemark.parse.formats import FORMATS


class FormatName(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """The name of a format, or of one that the settings of the home declare."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known: tuple[str, ...] = FORMATS
        if value not in known and ctx is not None:
            known = (*known, *settings_of(ctx, home=ctx.params.get("home")).formats)
        if value not in known:
            self.fail(f"{value!r} is not one of {', '.join(known)}.", param, ctx)
        return str(value)


def line_options(command: Any, *, own_formats: bool = False) -> Any:
    """The options that say what the lines of the files are. With `own_formats` the command accepts any name of a
    format, and checks it against those of the settings."""
    named = click.option(
        "--format",
        "log_format",
        type=FormatName() if own_formats else click.Choice(FORMATS),
        metavar="FORMAT",
        help="Format of the lines, see docs/formats.md (default: detected per line).",
    )
    site = click.option("--site", default=DEFAULT_SITE, show_default=True, help="Site of the lines.")
    return site(named(command))


def object_options(command: Any) -> Any:
    """The options that say which objects of which server are read: `endpoint`, `where`, `since`."""
    endpoint = click.option(
        "--endpoint", metavar="URL", default="", help="Server of the objects, such as MinIO."
    )
    where = click.option("--where", metavar="GLOB", default="", help="Only objects whose keys match.")
    since = click.option(
        "--since", metavar="TIME", help="Only objects written since a time, or an age such as 7d."
    )
    return endpoint(where(since(command)))


def reads_objects(ctx: click.Context, files: Sequence[str], **options: str | None) -> bool:
    """Whether a command reads objects, not files. Raises UsageError for both at once, and for the `options` of objects
    beside files."""
    objects = any(map(is_url, files))
    if objects != all(map(is_url, files)):
        raise click.UsageError("Name files and objects in separate commands.", ctx)
    if not objects and any(options.values()):
        names = ", ".join(f"--{name}" for name in options)
        raise click.UsageError(f"{names} are for URLs of objects.", ctx)
    return objects


def objects_of(
    ctx: click.Context, files: Sequence[str], *, endpoint: str, where: str, since: str | None
) -> Objects | None:
    """The objects that a command reads; None if it reads files. Raises UsageError, SettingError, SelectionError."""
    if not reads_objects(ctx, files, endpoint=endpoint, where=where, since=since):
        return None
    return Objects([open_store(url, endpoint=endpoint) for url in files], selection_of(where, since))


def selection_of(where: str, since: str | None) -> Selection:
    """The objects that `--where` and `--since` select. Raises SelectionError."""
    if since is None:
        return Selection(where)
    from tidemark.figures.declared import duration
    from tidemark.figures.selection import SelectionError, moment

    try:
        return Selection(where, datetime.now(UTC) - duration(since))
    except SelectionError:
        return Selection(where, moment(since))
