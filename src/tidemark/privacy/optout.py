"""Requests that ask for privacy: the headers `Sec-GPC` and `DNT`, where a log has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, Parts, flags_of
from tidemark.parse.detect import Detected
from tidemark.parse.format import Format
from tidemark.parse.layout import Layout
from tidemark.parse.objects import JsonFormat, objects_of
from tidemark.parse.w3c import column_name

# The header as a JSON object has it, under the names that servers and people give it.
_IN_OBJECTS = r'(?i)"[\w.>-]*(?:sec[_-]?gpc|dnt)\\?"\s*:\s*\[?\s*\\?"?(?:1\b|true)'
# Columns of W3C logs with it.
_COLUMNS = (column_name("cs(Sec-GPC)"), column_name("cs(DNT)"))
_FIELD, _YES = "gpc", "1"


def opted_out(detected: Detected, own: Sequence[Format]) -> Flags:
    """Whether lines have one of these headers with the value 1; `own` are the user's formats."""
    lines = detected.lines
    opts_out: Flags = flags_of(pc.match_substring_regex(lines.text, _IN_OBJECTS))
    for format in own:
        rows = np.flatnonzero(detected.which == detected.formats.index(format.name))
        if len(rows):
            opts_out[rows] |= _in_own(format, lines.text.take(pa.array(rows)))
    for header in pc.unique(lines.header).drop_null().to_pylist():
        names = list(map(column_name, header.split()))
        rows = np.flatnonzero(flags_of(pc.equal(lines.header, header)))
        for column in (names.index(name) for name in _COLUMNS if name in names):
            text = lines.text.take(pa.array(rows))
            between = "\t" if pc.any(pc.match_substring(text, "\t")).as_py() else " "
            opts_out[rows] |= flags_of(pc.equal(Parts.of(text, between).at(column), _YES))
    return opts_out


def _in_own(format: Format, text: pa.Array) -> Flags:
    opts_out = np.zeros(len(text), bool)
    if isinstance(format, JsonFormat) and (paths := format.keys.get(_FIELD)):
        opts_out |= flags_of(pc.equal(objects_of(text, paths).first(paths), _YES))
    elif isinstance(format, Layout):
        for texts in format.texts(text):
            if _FIELD in texts:
                opts_out |= flags_of(pc.equal(texts[_FIELD], _YES))
    return opts_out
