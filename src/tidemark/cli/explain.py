"""`tidemark explain`: what the lines of log files are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import Any

import click

from tidemark.cli import home_options, settings_of
from tidemark.cli.inferring import described
from tidemark.cli.lines import line_options, object_options, objects_of
from tidemark.importing.sample import Sample
from tidemark.importing.sources import Spooled, blocks_of, expand
from tidemark.parse.custom import reading_of
from tidemark.parse.explain import ABSENT, Kind, explained
from tidemark.service.inferring import sampled

_MOST_SHOWN = 160


@click.command("explain")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@partial(line_options, own_formats=True)
@object_options
@home_options
@click.pass_context
def explain_command(
    ctx: click.Context,
    /,
    files: tuple[str, ...],
    site: str,
    log_format: str | None,
    endpoint: str,
    where: str,
    since: str | None,
    **overrides: Any,
) -> None:
    """Show the formats of the lines in log FILEs: paths, quoted globs, compressed files, - for standard input, or URLs
    such as s3://BUCKET/PREFIX/, of which it looks at the first objects.

    For each kind of line it prints their number and the fields of the first one. For lines that would be rejected
    it prints the nearest format and the first field that differs. If lines of no format have a layout in common, it
    prints that, with one line taken apart. It imports nothing. Own formats and settings of
    the site come from the home that --home names.
    """
    objects = objects_of(ctx, files, endpoint=endpoint, where=where, since=since)
    settings, sample = settings_of(ctx, **overrides), Sample()
    with ExitStack() as stack:
        sources: Sequence[str | Spooled] = stack.enter_context(objects.first()) if objects else expand(files)
        for kind in explained(_lines(sources, sample), log_format, site, reading_of(settings)):
            click.echo("\n".join(_described(kind)) + "\n")
    result = sampled(sample.lines, log_format, site, settings)
    if text := "\n".join(described(result, _taken_apart)):
        click.echo(text + "\n")


def _lines(sources: Sequence[str | Spooled], sample: Sample) -> Iterator[tuple[list[bytes], str]]:
    for block in (block for source in sources for block in blocks_of(source)):
        if block.lines:
            sample.look(block)
            yield block.lines, block.fields


def _described(kind: Kind) -> Iterator[str]:
    lines = f"{kind.count:,} line{'' if kind.count == 1 else 's'}"
    if not kind.format:
        near = (
            f"; nearest: {kind.nearest}, differs at {'its end' if kind.lack == 'end' else kind.lack}"
            if kind.nearest
            else ""
        )
        yield f"{lines} rejected: {kind.fault}{near}"
    else:
        envelope = " in an envelope" if kind.wrapped else ""
        yield f"{lines} of {kind.format}{envelope}" + (f", rejected: {kind.fault}" if kind.fault else "")
    yield from _taken_apart(kind)


def _taken_apart(kind: Kind) -> Iterator[str]:
    """The first line of a kind, and its columns if it has a format."""
    for name, value in kind.columns.items() if kind.format else ():
        if value is not None:
            yield f"  {name:<12} {_shown(value)}"
        elif name in kind.absent.split(","):
            yield f"  {name:<12} NULL: {ABSENT[name]}"
    text = kind.line.decode("utf-8", "backslashreplace")
    text = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
    yield "  " + (text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


def _shown(value: Any) -> str:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)
