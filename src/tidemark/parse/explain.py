"""The formats of lines, and for lines of no format the nearest one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of
from tidemark.parse.detect import MOST_WRAPPERS, detected, fields
from tidemark.parse.nearest import nearest
from tidemark.parse.reading import PLAIN, Reading
from tidemark.parse.text import Lines, text_of
from tidemark.parse.values import COLUMNS


@dataclass
class Kind:
    """Lines of one kind: their `format`, or the one that they are `nearest` to and the field that they `lack`; the
    `fault` for which they would be rejected; which columns of ABSENT are NULL, with commas in between; the first of
    them, its columns, whether it is in an envelope, and their number."""

    format: str
    nearest: str
    lack: str
    fault: str
    absent: str
    line: bytes
    columns: Mapping[str, Any]
    wrapped: bool
    count: int = 0


def explained(
    blocks: Iterable[tuple[Sequence[bytes], str]],
    named: str | None = None,
    site: str | None = None,
    reading: Reading = PLAIN,
) -> list[Kind]:
    """The kinds of lines, the most frequent first. A block is lines, and the names of their columns for a W3C log.
    `named` is the format that the sender names; `site` and `reading` are the lines' site and the settings."""
    kinds: dict[tuple[str, str, str, str, str], Kind] = {}
    for block, header in blocks:
        lines = _arrays(block, header, named, site)
        result = fields(lines, reading)
        faults = _faults(result | {"filled": pc.greater(pc.binary_length(lines["value"]), 0)})
        near, lack = nearest(lines["value"], lines["fields"], flags_of(pc.equal(faults, _NO_FORMAT)))
        texts = {
            "format": result["read_as"],
            "nearest": near,
            "lack": lack,
            "fault": faults,
            "absent": _absent(result),
        }
        table = pa.table({name: pc.fill_null(text, "") for name, text in texts.items()})
        groups = table.append_column("row", pa.array(np.arange(len(block))))
        for group in (
            groups.group_by(table.column_names).aggregate([("row", "min"), ("row", "count")]).to_pylist()
        ):
            key = (group["format"], group["nearest"], group["lack"], group["fault"], group["absent"])
            if key not in kinds:
                row = group["row_min"]
                columns = {name: result[name][row].as_py() for name in COLUMNS}
                kinds[key] = Kind(*key, block[row], columns, _wrapped(block[row], named, reading))
            kinds[key].count += group["row_count"]
    return sorted(kinds.values(), key=lambda kind: -kind.count)


def formats_and_unread(
    block: Sequence[bytes], header: str, named: str | None, site: str | None, reading: Reading = PLAIN
) -> tuple[Counter[str], list[bytes]]:
    """The number of lines by format, "" for those of none, and these lines, but for empty and too long ones."""
    lines = _arrays(block, header, named, site)
    columns = fields(lines, reading)
    counts = pc.value_counts(columns["read_as"]).to_pylist()
    unread = flags_of(pc.and_(columns["fits"], pc.invert(columns["well_formed"])))
    filled = flags_of(pc.greater(pc.binary_length(lines["value"]), 0))
    return (
        Counter({each["values"] or "": each["counts"] for each in counts}),
        lines["value"].filter(pa.array(unread & filled)).to_pylist(),
    )


def _arrays(block: Sequence[bytes], header: str, named: str | None, site: str | None) -> dict[str, pa.Array]:
    values = {"format": named, "fields": header or None, "site": site}
    texts = {name: pa.array([value] * len(block), pa.string()) for name, value in values.items()}
    return {"value": pa.array(block, pa.binary())} | texts


_NO_FORMAT = "matches no format"
# Columns that a request usually has, and what a line without them says.
ABSENT = {
    "client_ip": "neither an address nor a host name stands there",
    "method": "the request is not one of HTTP, or the format has no methods",
    "path": "the request is not one of HTTP",
    "status": "the line says that there was none",
}


def _absent(columns: Mapping[str, pa.Array]) -> pa.Array:
    """The names of ABSENT that are NULL in each line that is read, with commas in between."""
    missing = (
        pc.if_else(pc.and_(columns["well_formed"], pc.is_null(columns[name])), f"{name},", "")
        for name in ABSENT
    )
    return pc.utf8_rtrim(pc.binary_join_element_wise(*missing, ""), ",")


def _faults(columns: Mapping[str, pa.Array]) -> pa.Array:
    """The first fault of each line; empty for lines without one."""
    faults = [
        ("is empty", columns["filled"]),
        ("is too long", columns["fits"]),
        ("is from a W3C log whose header is missing", columns["fields_known"]),
        ("is a part of a line that a container runtime split", columns["whole"]),
        (_NO_FORMAT, columns["well_formed"]),
        ("has no valid time", pc.is_valid(columns["event_time"])),
        ("has no valid status", columns["status_ok"]),
    ]
    return pa.array(np.select([~flags_of(holds) for _, holds in faults], [fault for fault, _ in faults], ""))


def _wrapped(line: bytes, named: str | None, reading: Reading) -> bool:
    """Whether the line is read, but not without looking through an envelope."""
    lines = Lines.of(text_of(pa.array([line])), np.ones(1, bool))
    names = pa.array([named], pa.string())
    inside, outside = (detected(lines, names, reading.formats, most).read for most in (MOST_WRAPPERS, 0))
    # An envelope of syslog can look like a part of the first field.
    clients = [read.columns["client_ip"][0] for read in (inside, outside)]
    return bool(inside.sound[0]) and clients[0] != clients[1]
