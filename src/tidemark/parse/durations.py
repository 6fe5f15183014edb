"""Durations with their unit, such as `12ms`, `1.5 s`, `345µs` and Go's `1m2.5s`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of, where
from tidemark.parse.values import microseconds

# By unit, its spellings, and how many digits the point moves to microseconds.
_UNITS = (
    (r"ns|nanos(?:econds)?", -3),
    (r"us|µs|μs|usecs?|micros(?:econds)?", 0),
    (r"ms|msecs?|millis(?:econds)?", 3),
    (r"s|secs?|seconds?", 6),
)
_WITH_UNIT = rf"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>{'|'.join(names for names, _ in _UNITS)})"
PATTERN = rf"^(?:(?P<hours>\d{{1,4}})h)?(?:(?P<minutes>\d{{1,5}})m)?(?:{_WITH_UNIT})?$"


def with_unit(text: pa.Array) -> pa.Array:
    """Microseconds, as text, of texts that are a duration with its unit; NULL for others."""
    coded = text.dictionary_encode()
    parts = pc.extract_regex(coded.dictionary, PATTERN)
    unit, number = pc.struct_field(parts, "unit"), pc.struct_field(parts, "number")
    total = pa.nulls(len(coded.dictionary), pa.int64())
    for names, digits in _UNITS:
        of_unit = flags_of(pc.match_substring_regex(unit, f"^(?:{names})$"))
        total = pc.coalesce(total, microseconds(where(of_unit, number, None), digits))
    for name, seconds in (("hours", 3_600), ("minutes", 60)):
        longer = where(
            flags_of(pc.not_equal(pc.struct_field(parts, name), "")), pc.struct_field(parts, name), None
        )
        longer = pc.multiply(microseconds(longer, 6), seconds)
        total = pc.coalesce(pc.add(total, longer), total, where(flags_of(pc.equal(unit, "")), longer, None))
    return total.cast(pa.string()).take(coded.indices)
