"""Durations: numbers of a known unit, and texts with their unit, such as `12ms`, `1.5 s`, `345µs` and Go's `1m2.5s`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Parts, flags_of, matches, where

# A number with more digits exceeds every duration.
_MOST_DIGITS = 18

# How many digits the point moves from the unit of a field to microseconds.
_FIELDS = {"duration_s": 6, "duration_ms": 3, "duration_us": 0, "duration_ns": -3}
# By unit, its spellings, and how many digits the point moves to microseconds.
_UNITS = (
    (r"ns|nanos(?:econds)?", -3),
    (r"us|µs|μs|usecs?|micros(?:econds)?", 0),
    (r"ms|msecs?|millis(?:econds)?", 3),
    (r"s|secs?|seconds?", 6),
)
UNITS = "|".join(names for names, _ in _UNITS)
_WITH_UNIT = rf"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>{UNITS})"
PATTERN = rf"^(?:(?P<hours>\d{{1,4}})h)?(?:(?P<minutes>\d{{1,5}})m)?(?:{_WITH_UNIT})?$"


def first_duration(texts: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Microseconds of the first text of each row that says a duration: `duration_s` and its like in other units."""
    durations = pa.nulls(rows, pa.int64())
    for unit, digits in _FIELDS.items():
        if unit in texts and durations.null_count:
            durations = pc.coalesce(durations, microseconds(texts[unit], digits))
            left = where(flags_of(pc.is_null(durations)), texts[unit], None)
            if left.null_count < rows:
                durations = pc.coalesce(durations, with_unit(left))
    return durations


def with_unit(text: pa.Array) -> pa.Array:
    """Microseconds of texts that are a duration with its unit; NULL for others."""
    coded = text.dictionary_encode()
    parts = pc.extract_regex(coded.dictionary, PATTERN)
    unit, number = pc.struct_field(parts, "unit"), pc.struct_field(parts, "number")
    total = pa.nulls(len(coded.dictionary), pa.int64())
    for names, digits in _UNITS:
        of_unit = matches(unit, f"^(?:{names})$")
        total = pc.coalesce(total, microseconds(where(of_unit, number, None), digits))
    for name, seconds in (("hours", 3_600), ("minutes", 60)):
        longer = where(
            flags_of(pc.not_equal(pc.struct_field(parts, name), "")), pc.struct_field(parts, name), None
        )
        longer = pc.multiply(microseconds(longer, 6), seconds)
        total = pc.coalesce(pc.add(total, longer), total, where(flags_of(pc.equal(unit, "")), longer, None))
    return total.take(coded.indices)


def summed_seconds(parts: Sequence[pa.Array]) -> pa.Array:
    """The sum of texts in seconds, as text in microseconds; NULL where one says no duration."""
    first, *others = (microseconds(each, 6) for each in parts)
    for each in others:
        first = pc.add(first, each)
    return first.cast(pa.string())


def microseconds(text: pa.Array, digits: int) -> pa.Array:
    """Decimal numbers, shifted by so many digits to the left, rounded half up. NULL for other texts, for negative
    numbers, and for those too large for the result."""
    coded = text.dictionary_encode()
    return _shifted(coded.dictionary, digits).take(coded.indices)


def _shifted(text: pa.Array, digits: int) -> pa.Array:
    most = _MOST_DIGITS - max(digits, 0) - 1
    sound = pc.match_substring_regex(text, rf"^\d{{1,{most}}}(?:\.\d+)?$")
    text = where(flags_of(sound), text, None)
    parts = Parts.of(text, ".", 1)
    whole, fraction = parts.at(0), pc.fill_null(parts.at(1), "")
    if digits < 0:  # the digits after the point do not matter
        whole = pc.utf8_lpad(whole, 1 - digits, "0")
        whole, fraction = pc.utf8_slice_codeunits(whole, 0, digits), pc.utf8_slice_codeunits(whole, digits)
        digits = 0
    shifted = pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, digits + 1, "0"), 0, digits + 1)
    number = pc.binary_join_element_wise(whole, shifted, "").cast(pa.int64())
    # One digit more than asked for, which decides how to round.
    return pc.divide(pc.add(number, 5), 10)
