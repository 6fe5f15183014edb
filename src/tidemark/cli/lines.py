"""The options of commands that say what the lines of files are."""

from __future__ import annotations

from typing import Any

import click

from tidemark.cli import settings_of
from tidemark.kafka.records import DEFAULT_SITE
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
