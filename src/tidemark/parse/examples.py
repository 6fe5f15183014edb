"""The examples of own formats, by which they are tested when they are loaded."""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa

from tidemark.errors import SettingError
from tidemark.parse.explain import Kind, explained
from tidemark.parse.format import Format
from tidemark.parse.formats import FORMATS
from tidemark.parse.reading import Reading
from tidemark.parse.text import Lines

log = logging.getLogger("tidemark.formats")

_MOST_SHOWN = 80


def check(format: Format, reading: Reading, source: str) -> None:
    """Reads the examples of an own format of `reading`, by its name and, if it is detected, without it.

    Raises SettingError, which names `source` and the example, if the format does not read one, or if a built-in format
    takes it first. An example that another own format takes first is a warning.
    """
    block = [each.encode() for each in format.examples]
    for kind in _kinds(block, format.name, reading):
        if not kind.format:
            lines = Lines.of(pa.array([kind.line.decode()]), np.ones(1, bool))
            [field] = format.progress(lines)[1]
            raise SettingError(
                f"{source}: the format {format.name} does not read its example, from"
                f" {f'the field {field}' if field else 'its end'} on: {_shown(kind)}",
                "Correct the format or the example.",
            )
        if kind.fault:
            raise SettingError(
                f"{source}: an example of the format {format.name} {kind.fault}: {_shown(kind)}",
                "Correct the format or the example.",
            )
    for kind in _kinds(block, None, reading) if format.detected else ():
        if kind.format in FORMATS:
            raise SettingError(
                f"{source}: an example of the format {format.name} is read as {kind.format}: {_shown(kind)}",
                "Set detected = false, and name the format on import.",
            )
        if kind.format != format.name:
            log.warning("%s: lines such as %s are read as %s", source, _shown(kind), kind.format)


def _kinds(block: list[bytes], named: str | None, reading: Reading) -> list[Kind]:
    return explained([(block, "")] if block else [], named, None, reading)


def _shown(kind: Kind) -> str:
    text = kind.line.decode()
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
