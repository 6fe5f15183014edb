"""For lines of no format, the one that they are nearly of, and the first field that they lack of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Arrays, Flags, flags_of, where
from tidemark.parse import wrappers
from tidemark.parse.detect import DECLARED, JSON_PATHS
from tidemark.parse.objects import JsonFormat, objects_among
from tidemark.parse.text import Lines, text_of

# Fewer fields than this make no line similar to a format.
_FEW = 2
_END = "end"


def of_rejected(fields: Mapping[str, str], lines: Arrays) -> dict[str, pa.Array]:
    """`nearest`: the format of a rejected line, or the one that it is nearly of; `lacks`: the field that breaks a rule
    (`fields` has them by rule), or the first one that it lacks of that format. NULL for an accepted line, and where
    neither is known. `lines` have the columns of `tidemark.parse.detect.fields`, `accepted` and `reasons`."""
    rejected = ~flags_of(lines["accepted"])
    if not rejected.any():
        none = pa.nulls(len(rejected), pa.string())
        return {"nearest": none, "lacks": none}
    read = rejected & flags_of(pc.is_valid(lines["read_as"]))
    formats, lacks = nearest(lines["value"], lines["fields"], rejected & ~read & flags_of(lines["fits"]))
    reasons = lines["reasons"]
    starts = np.where(read, reasons.offsets.to_numpy()[:-1], 0)
    first = reasons.values.take(pa.array(starts, mask=~read))
    broken = pa.array(list(fields.values())).take(pc.index_in(first, pa.array(list(fields))))
    return {"nearest": where(~read, formats, lines["read_as"]), "lacks": where(~read, lacks, broken)}


def nearest(value: pa.Array, header: pa.Array, unread: Flags) -> tuple[pa.Array, pa.Array]:
    """For the flagged lines (binary; `header` as in `tidemark.parse.detect.parse`), the name of the format that they
    have most fields of, and that of the first field that they lack, `end` where something follows the last one.
    NULL for others, and for lines that have hardly a field of any."""
    names, lacks = np.full(len(value), None, object), np.full(len(value), None, object)
    rows = np.flatnonzero(unread)
    if len(rows):
        index = pa.array(rows)
        text = text_of(value.take(index))
        lines = unwrapped(Lines.of(text, np.ones(len(rows), bool), header.take(index)))
        most = np.full(len(rows), _FEW - 1)
        objects = objects_among(lines.text, JSON_PATHS)
        for format in DECLARED:
            if isinstance(format, JsonFormat):  # all of them look at the same objects, which are read once
                reached, lacking = format.progress_of(*objects)
            else:
                reached, lacking = format.progress(lines)
            better = reached > most
            names[rows[better]] = format.name
            lacks[rows[better]] = [field.lstrip("_") or _END for field in lacking[better]]
            most = np.maximum(most, reached)
    return pa.array(names, pa.string()), pa.array(lacks, pa.string())


def unwrapped(lines: Lines) -> Lines:
    """The lines inside an envelope, and those without one."""
    flagged, objects = objects_among(lines.text, wrappers.PATHS)
    inner = wrappers.unwrapped(lines.text)
    if flagged.any():
        inner = pc.replace_with_mask(inner, pa.array(flagged), wrappers.inside(objects))
    text = pc.coalesce(inner, lines.text)
    return lines if pc.all(pc.is_null(inner)).as_py() else Lines.of(text, lines.sound, lines.header)
