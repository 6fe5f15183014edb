"""Messages of `import`, `explain` and `view` about inferred layouts, and the files that are sampled for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import click

from tidemark.errors import InputError
from tidemark.importing.sample import FIRST_LINES, Sample
from tidemark.importing.sources import Spooled, blocks_of, is_stream
from tidemark.parse.custom import reading_of
from tidemark.parse.explain import Kind, explained
from tidemark.parse.infer import Ambiguous, Inferred
from tidemark.service import inferring
from tidemark.settings import Settings, with_tables_of_now

REBUILD = "`tidemark rebuild silver.requests` brings in the lines that are in quarantine"
_NAME = "inferred"
# What is left to do for lines of a stream, which can only be looked at once they are sent.
LATER = f"Once the pipeline has read them, {REBUILD}."


def save_inferred(
    sources: Iterable[str | Spooled],
    site: str,
    settings: Settings,
    say: Callable[[str], None],
    *,
    wait: bool = True,
) -> Settings:
    """Infers the layout of the lines of files that no format reads, and saves it in the settings file; returns the
    settings with it. With `wait`, until a running pipeline reads lines by it."""
    for source in sources:
        path = source.name if isinstance(source, Spooled) else source
        if isinstance(source, str) and is_stream(source):
            continue
        try:
            lines = _first_lines(source)
        except InputError:  # the import says what is wrong with the file
            continue
        sample = inferring.sampled(lines, None, site, settings)
        settings = save_result(path, sample, settings, say, wait=wait)
    return settings


def with_inferred(sources: Iterable[str | Spooled], site: str, settings: Settings) -> Settings:
    """The settings of a home with the formats that it has already, and those that are inferred from files."""
    known = with_tables_of_now(settings)
    return save_inferred(sources, site, known, partial(click.echo, err=True), wait=False)


def save_result(
    path: str, sample: inferring.Sampled, settings: Settings, say: Callable[[str], None], *, wait: bool = True
) -> Settings:
    """Saves what was inferred from a file's lines, if it is sure; returns the settings with it."""
    result = sample.inferred
    if isinstance(result, Ambiguous):
        say(f"{path}: {outlook(sample)}")
    if not isinstance(result, Inferred):
        return settings
    name = inferring.save(settings, path, sample, result)
    notes = "".join(f"; {note}" for note in result.notes)
    say(f"{path}: {shown(result)}, saved as the format {name} in {settings.home / 'tidemark.toml'}{notes}")
    settings = inferring.with_format(settings, name, result.format)
    if wait and not inferring.await_taken_over(settings, name):
        say(f"The running pipeline does not read lines by {name} yet. Later, {REBUILD}.")
    return settings


def outlook(sample: inferring.Sampled) -> str:
    """The actions of an import with `--infer` for lines that no format reads, or its questions; empty if
    these are no requests."""
    result, lines = sample.inferred, f"{len(sample.unread):,} lines match no format"
    if isinstance(result, Ambiguous):
        return f"{lines}. {_sentence(result.question)} `tidemark explain` prints a format for either answer."
    if isinstance(result, Inferred):
        return (
            f"{lines}; they look like {shown(result)}. `tidemark import --infer` saves that, and {REBUILD}."
        )
    return ""


def described(sample: inferring.Sampled, fields: Callable[[Kind], Iterable[str]]) -> Iterator[str]:
    """The layout that lines of no format have in common, and the fields of one line; of an ambiguous layout, both
    readings."""
    result, lines = sample.inferred, f"{len(sample.unread):,} lines of no format have a layout in common"
    if isinstance(result, Ambiguous):
        yield f"{lines}. {_sentence(result.question)}"
        readings = result.readings
    elif isinstance(result, Inferred):
        yield f"{lines}, which `tidemark import --infer` saves:"
        readings = (result,)
    else:
        return
    for reading in readings:
        yield f"\n{inferring.declaration(_NAME, reading.format)}\n"
        own = reading_of(inferring.with_format(Settings(), _NAME, reading.format))
        for kind in explained([([reading.example.encode()], "")], None, None, own):
            yield from fields(kind)
    yield from (f"  {note}" for note in readings[0].notes)


def shown(inferred: Inferred) -> str:
    """The layout in one line."""
    kind = "JSON objects with" if inferred.format.keys else "the layout"
    return f"{kind} {inferred.shown}"


def _first_lines(source: str | Spooled) -> Mapping[str, Sequence[bytes]]:
    sample = Sample()
    for block in blocks_of(source):
        sample.look(block)
        if sample.seen >= FIRST_LINES:
            break
    return sample.lines


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
