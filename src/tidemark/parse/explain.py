"""What lines are: of which format, and for lines of none, of which they are nearly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, flags_of
from tidemark.parse.country import is_address
from tidemark.parse.detect import DECLARED, detected, fields, formats
from tidemark.parse.text import Lines
from tidemark.parse.values import COLUMNS

# Fewer fields than this make no line similar to a format.
_FEW = 2
_STATUSES = range(100, 600)


@dataclass
class Kind:
    """Lines of one kind: their `format`, or the one that they are `nearest` to and the field that they `lack`; the
    `fault` for which they would be rejected; the first of them, its columns, whether it is in an envelope, and their
    number."""

    format: str
    nearest: str
    lack: str
    fault: str
    line: bytes
    columns: Mapping[str, Any]
    wrapped: bool
    count: int = 0


def explained(blocks: Iterable[tuple[Sequence[bytes], str]], named: str | None = None) -> list[Kind]:
    """The kinds of lines, the most frequent first. A block is lines, and the names of their columns for a W3C log.
    `named` is the format that the sender names."""
    kinds: dict[tuple[str, str, str, str], Kind] = {}
    for block, header in blocks:
        said = {"format": named, "fields": header or None}
        lines = {"value": pa.array(block, pa.binary())} | {
            name: pa.array([value] * len(block), pa.string()) for name, value in said.items()
        }
        found, names = fields(lines), formats(lines)
        faults = _faults(found | {"filled": pc.greater(pc.binary_length(lines["value"]), 0)})
        nearest, lack = _nearest(lines["value"], flags_of(pc.equal(faults, _NO_FORMAT)))
        table = pa.table(
            {"format": pc.fill_null(names, ""), "nearest": nearest, "lack": lack, "fault": faults}
        )
        groups = table.append_column("row", pa.array(np.arange(len(block))))
        for group in (
            groups.group_by(table.column_names).aggregate([("row", "min"), ("row", "count")]).to_pylist()
        ):
            key = (group["format"], group["nearest"], group["lack"], group["fault"])
            if key not in kinds:
                row = group["row_min"]
                columns = {name: found[name][row].as_py() for name in COLUMNS}
                kinds[key] = Kind(*key, block[row], columns, _wrapped(block[row], named))
            kinds[key].count += group["row_count"]
    return sorted(kinds.values(), key=lambda kind: -kind.count)


_NO_FORMAT = "is of no format"


def _faults(found: Mapping[str, pa.Array]) -> pa.Array:
    """The first fault of each line; empty for lines without one."""
    clients = found["client_ip"].dictionary_encode()
    valid = [client is not None and is_address(client) for client in clients.dictionary.to_pylist()]
    addressed = pa.array(valid, pa.bool_()).take(clients.indices)
    faults = [
        ("is empty", found["filled"]),
        ("is too long", found["fits"]),
        ("is not UTF-8", found["utf8_ok"]),
        ("has control characters", found["text_ok"]),
        ("is of a W3C log without its header", found["fields_known"]),
        (_NO_FORMAT, found["well_formed"]),
        ("has no valid address of the client", addressed),
        ("has no valid time", pc.is_valid(found["event_time"])),
        ("has no valid status", pc.is_in(found["status"], pa.array(_STATUSES, pa.int32()))),
        ("has no valid size", pc.is_valid(found["bytes"])),
    ]
    return pa.array(np.select([~flags_of(holds) for _, holds in faults], [fault for fault, _ in faults], ""))


def _nearest(value: pa.Array, unread: Flags) -> tuple[pa.Array, pa.Array]:
    """For the flagged lines, the name of the format that they have most fields of, and that of the first field that
    they lack; empty for others."""
    names, lacks = np.full(len(value), "", object), np.full(len(value), "", object)
    rows = np.flatnonzero(unread)
    if len(rows):
        lines = Lines.of(value.take(pa.array(rows)).cast(pa.string()), np.ones(len(rows), bool))
        most = np.full(len(rows), _FEW - 1)
        for format in DECLARED:
            reached, lacking = format.progress(lines)
            better = reached > most
            names[rows[better]], lacks[rows[better]] = format.name, lacking[better]
            most = np.maximum(most, reached)
    return pa.array(names, pa.string()), pa.array(lacks, pa.string())


def _wrapped(line: bytes, named: str | None) -> bool:
    """Whether the line is read, but not without looking through an envelope."""
    try:
        lines = Lines.of(pa.array([line.decode()]), np.ones(1, bool))
    except UnicodeDecodeError:
        return False
    names = pa.array([named], pa.string())
    found, outside = detected(lines, names).read, detected(lines, names, 0).read
    # An envelope of syslog can look like a part of the first field.
    clients = [read.columns["client_ip"][0] for read in (found, outside)]
    return bool(found.sound[0]) and clients[0] != clients[1]
