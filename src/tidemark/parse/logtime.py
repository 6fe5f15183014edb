"""The time in a log line, from text to a timestamp."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, flags_at, flags_of, matches, where
from tidemark.parse.time_forms import rewritten

_UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")
_TEMPLATE = np.frombuffer(b"00/Mon/0000:00:00:00 +0000", np.uint8)
_ISO = np.frombuffer(b"0000-00-00T00:00:00", np.uint8)
_LOCAL = 20  # the length of the template's part without the zone
_TEMPLATE_DIGITS = np.flatnonzero(np.equal(_TEMPLATE[:_LOCAL], ord("0")))
_TEMPLATE_MARKS = np.flatnonzero(np.isin(_TEMPLATE[:_LOCAL], list(b"/: ")))
# Days since 1970 of the first day of each month up to 9999.
_FIRST_DAYS = np.arange("1970-01", "9999-02", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int64)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# The maximum offset from UTC in Java and Spark.
_MOST_MINUTES_AHEAD = 18 * 60
# What may follow the seconds.
_REST = r"^(?:[.,](?P<fraction>\d{1,9}))? ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?$"
_ZONE = r"(?:Z|UTC|GMT|[+-]\d\d:?\d\d)(?: \d{4})?$"
# Seconds, milliseconds, microseconds or nanoseconds since 1970; only the first two have decimals.
_EPOCH = r"^\d{9,10}(\.\d+)?$|^\d{13}(\.\d+)?$|^\d{16}$|^\d{19}$"
# Times with the month's name that differ from the template in order and marks, and what they are in its form: `Wed, 12
# Mar 2025 08:57:48 GMT`, `12-Mar-2025 08:57:48`, `Wed Mar 12 08:57:48 2025`.
_MONTH = "(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
_NAMED = (
    rf"^(?:[A-Z][a-z]{{2,8}},? )?(?P<day>\d\d?)[ /-]{_MONTH}[ /-](?P<year>\d{{4}})[ :T]{_CLOCK}(?P<zone>.*)$",
    rf"^(?:[A-Z][a-z]{{2,8}},? )?{_MONTH} +(?P<day>\d\d?),? {_CLOCK} (?:(?P<zone>[A-Z]{{3}}|[+-]\d{{4}}) )?"
    r"(?P<year>\d{4})$",
    rf"^{_MONTH}/(?P<day>\d\d?)/(?P<year>\d{{4}}):{_CLOCK}(?P<zone>.*)$",
    rf"^{_MONTH} (?P<day>\d\d?), (?P<year>\d{{4}}) {_CLOCK}(?P<zone>.*)$",
)

# So many times of a batch decide whether times are repeated.
_SAMPLE = 64

Numbers = np.ndarray[Any, Any]


def event_time(text: pa.Array) -> pa.Array:
    """UTC timestamps of the texts, `17/May/2015:10:05:03 +0000`; NULL for any other text, an impossible date, or a
    year before 1970 or after 9998.

    Much faster than `strptime`, which also accepts days that a month does not have. Lines of a busy server have the
    same times, of which each is parsed once.
    """
    sample = (
        text.take(pa.array(np.linspace(0, len(text) - 1, _SAMPLE).astype(np.int64))) if len(text) else text
    )
    if len(text) > _SAMPLE and len(sample.unique()) <= _SAMPLE // 2:
        coded = text.dictionary_encode()
        return _event_time(coded.dictionary).take(coded.indices)
    return _event_time(text)


def _event_time(text: pa.Array) -> pa.Array:
    fitting = flags_of(pc.equal(pc.binary_length(text), len(_TEMPLATE)))
    micros, valid = np.zeros(len(text), np.int64), np.zeros(len(text), bool)
    if fitting.any():
        micros[fitting], valid[fitting] = _parsed(_bytes(text.filter(pa.array(fitting)), len(_TEMPLATE)))
    return pa.array(micros, mask=~valid).cast(_UTC_MICROSECONDS)


def any_time(text: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The same for more forms: brackets around it, `17/May/2015:10:05:03.5`, RFC 3339 (also with a space instead of
    the T, with slashes in the date, and without a zone), those of RFC 1123 and of C's `ctime`, the time since 1970 in
    seconds or milliseconds (with decimals), micro- or nanoseconds, and those that `time_forms` rewrites. And whether
    the time has no zone; then it is taken for UTC.

    Digits beyond microseconds are left out.
    """
    times = event_time(text)
    zoneless = np.zeros(len(text), bool)
    open_ = pc.is_null(times)
    if times.null_count > text.null_count and pc.any(pc.starts_with(text, "[")).as_py():
        text = pc.utf8_trim(text, "[] ")
        times = pc.coalesce(times, event_time(text))
        open_ = pc.is_null(times)
    for parse in (_iso, _local, _epoch, _named):
        rows = np.flatnonzero(flags_of(pc.and_(open_, pc.is_valid(text))))
        if not len(rows):
            break
        micros, valid = np.zeros(len(text), np.int64), np.zeros(len(text), bool)
        some = text.take(pa.array(rows))
        micros[rows], valid[rows] = parse(some)
        if parse is not _epoch:
            zoneless[rows] = valid[rows] & ~matches(some, _ZONE)
        times = pc.coalesce(times, pa.array(micros, mask=~valid).cast(_UTC_MICROSECONDS))
        open_ = pc.is_null(times)
    rows = np.flatnonzero(flags_of(pc.and_(open_, pc.is_valid(text))))
    if len(rows):
        some = text.take(pa.array(rows))
        usual = rewritten(pc.utf8_trim_whitespace(some))
        is_other = flags_of(pc.not_equal(usual, some))
        if is_other.any():
            mask = flags_at(rows[is_other], len(text))
            rewritten_times, lack_zone = any_time(usual.filter(pa.array(is_other)))
            times = pc.replace_with_mask(times, pa.array(mask), rewritten_times)
            zoneless[mask] = flags_of(lack_zone)
    return times, pa.array(zoneless)


def in_zone(time: pa.Array, zone: str) -> pa.Array:
    """The times of texts that were taken for UTC, but are of this zone. Of an hour that comes twice it is the first;
    a time that does not exist is moved after the gap."""
    local = time.cast(pa.timestamp("us"))
    return pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest").cast(_UTC_MICROSECONDS)


def _iso(text: pa.Array) -> tuple[Numbers, Flags]:
    fitting, head, digits, micros, ahead, valid = _with_head(text, len(_ISO))
    if head.size:
        number = partial(_number, digits)
        digit = np.equal(_ISO, ord("0"))[:, np.newaxis]
        same = ((digits >= 0) & (digits <= 9)) | ~digit
        marks = (head == _ISO[:, np.newaxis]) | digit
        marks[10] |= (head[10] == ord(" ")) | (head[10] == ord("t"))
        marks[[4, 7]] |= (head[4] == ord("/")) & (head[7] == ord("/"))
        seconds, sound = _seconds(
            number(0, 4), number(5), number(8), number(11), number(14), number(17), ahead
        )
        valid[fitting] = valid[fitting] & same.all(axis=0) & marks.all(axis=0) & sound
        micros[fitting] += seconds * 1_000_000
    return micros, valid


def _local(text: pa.Array) -> tuple[Numbers, Flags]:
    fitting, head, digits, micros, ahead, valid = _with_head(text, _LOCAL)
    if head.size:
        seconds, sound = _template(head, digits, ahead)
        valid[fitting] = valid[fitting] & sound
        micros[fitting] += seconds * 1_000_000
    return micros, valid


def _named(text: pa.Array) -> tuple[Numbers, Flags]:
    template = pa.nulls(len(text), pa.string())
    for pattern in _NAMED:
        parts = pc.extract_regex(text, pattern)
        day = pc.utf8_lpad(pc.struct_field(parts, "day"), 2, "0")
        date = pc.binary_join_element_wise(
            day, pc.struct_field(parts, "month"), pc.struct_field(parts, "year"), "/"
        )
        zone = pc.utf8_trim_whitespace(pc.struct_field(parts, "zone"))
        clock = pc.binary_join_element_wise(pc.struct_field(parts, "clock"), zone, " ")
        template = pc.coalesce(
            template, pc.binary_join_element_wise(date, pc.utf8_rtrim_whitespace(clock), ":")
        )
    return _local(template)


def _with_head(text: pa.Array, length: int) -> tuple[Flags, Numbers, Numbers, Numbers, Numbers, Flags]:
    """Splits texts into a head of so many bytes, and fraction and zone behind it: which texts are long enough, their
    heads as bytes and digits; of all texts the microseconds of the fraction, and whether the rest is as it should be;
    the zones of the long ones."""
    fitting = flags_of(pc.greater_equal(pc.binary_length(text), length)) & flags_of(pc.string_is_ascii(text))
    long = text.filter(pa.array(fitting))
    rest = pc.extract_regex(pc.utf8_slice_codeunits(long, length), _REST)
    micros, valid = np.zeros(len(text), np.int64), np.zeros(len(text), bool)
    fraction = pc.fill_null(pc.struct_field(rest, "fraction"), "")
    micros[fitting] = _micros(fraction)
    valid[fitting] = flags_of(pc.is_valid(rest))
    head = _bytes(pc.utf8_slice_codeunits(long, 0, length), length)
    zone = pc.replace_substring(pc.fill_null(pc.struct_field(rest, "zone"), ""), ":", "")
    zone = where(flags_of(pc.equal(pc.binary_length(zone), 5)), zone, "+0000")
    ahead = _ahead(zones := _bytes(zone, 5), _digits(zones), 0)
    return fitting, head, _digits(head), micros, ahead, valid


def _epoch(text: pa.Array) -> tuple[Numbers, Flags]:
    valid = matches(text, _EPOCH)
    parts = pc.extract_regex(text, r"^(?P<whole>\d+)\.?(?P<fraction>\d*)$")
    whole = pc.fill_null(where(valid, pc.struct_field(parts, "whole"), None), "0")
    number = whole.cast(pa.int64()).to_numpy(zero_copy_only=False)
    digits = pc.binary_length(whole).to_numpy(zero_copy_only=False)
    micros = number // np.where(digits == 19, 1_000, 1) * np.where(digits == 13, 1_000, 1)
    fraction = pc.fill_null(where(valid, pc.struct_field(parts, "fraction"), None), "")
    seconds = digits <= 10
    return np.where(seconds, number * 1_000_000 + _micros(fraction), micros), valid


def _micros(fraction: pa.Array) -> Numbers:
    """Digits after the decimal point as microseconds."""
    six = pc.utf8_rpad(pc.utf8_slice_codeunits(fraction, 0, 6), 6, "0")
    return six.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _bytes(text: pa.Array, length: int) -> Numbers:
    """The bytes of strings of equal length: a row for each place in the strings, which numpy works through at once."""
    if not len(text):
        return np.zeros((length, 0), np.uint8)
    _, offsets, data = text.buffers()
    start = np.frombuffer(offsets, np.int32)[text.offset]
    rows = np.frombuffer(data, np.uint8, len(text) * length, start).reshape(len(text), length)
    places: Numbers = np.ascontiguousarray(rows.T)
    return places


def _digits(places: Numbers) -> Numbers:
    return places.astype(np.int32) - ord("0")


def _number(digits: Numbers, start: int, length: int = 2) -> Numbers:
    """Numbers from so many digits at a place."""
    value: Numbers = digits[start]
    for place in range(start + 1, start + length):
        value = value * 10 + digits[place]
    return value


def _parsed(places: Numbers) -> tuple[Numbers, Flags]:
    """Microseconds since 1970 of texts as long as the template, and whether each is valid."""
    digits = _digits(places)
    seconds, valid = _template(places, digits, _ahead(places, digits, _LOCAL + 1))
    zone, sign = digits[_LOCAL + 2 :], places[_LOCAL + 1]
    valid &= (places[_LOCAL] == ord(" ")) & ((sign == ord("+")) | (sign == ord("-")))
    return seconds * 1_000_000, valid & ((zone >= 0) & (zone <= 9)).all(axis=0)


def _template(places: Numbers, digits: Numbers, ahead: Numbers) -> tuple[Numbers, Flags]:
    """Seconds of texts that begin like the template, and whether each is valid."""
    number, month = partial(_number, digits), _month(places[3:6])
    seconds, valid = _seconds(number(7, 4), month, number(0), number(12), number(15), number(18), ahead)
    numbers = digits[_TEMPLATE_DIGITS]
    valid &= ((numbers >= 0) & (numbers <= 9)).all(axis=0)
    return seconds, valid & (places[_TEMPLATE_MARKS] == _TEMPLATE[_TEMPLATE_MARKS, np.newaxis]).all(axis=0)


def _ahead(places: Numbers, digits: Numbers, start: int) -> Numbers:
    """Minutes ahead of UTC of a zone, `+0530`; too many if it is not valid."""
    hours, minutes = _number(digits, start + 1), _number(digits, start + 3)
    ahead = np.where(places[start] == ord("-"), -1, 1) * (hours * 60 + minutes)
    return np.where(minutes < 60, ahead, _MOST_MINUTES_AHEAD + 1)


def _seconds(
    year: Numbers,
    month: Numbers,
    day: Numbers,
    hour: Numbers,
    minute: Numbers,
    second: Numbers,
    ahead: Numbers,
) -> tuple[Numbers, Flags]:
    """Seconds since 1970, and whether each is valid. A leap second, which ends a quarter of an hour in any zone, is the
    next second."""
    valid = (
        (month > 0)
        & (month <= 12)
        & (year >= 1970)
        & (year <= 9998)
        & (hour < 24)
        & (minute < 60)
        & ((second < 60) | ((second == 60) & (minute % 15 == 14)))
        & (np.abs(ahead) <= _MOST_MINUTES_AHEAD)
    )
    months = np.where(valid, (year - 1970) * 12 + month - 1, 0)
    first = _FIRST_DAYS[months]
    valid &= (day >= 1) & (first + day <= _FIRST_DAYS[months + 1])
    return (first + day - 1) * 86_400 + hour * 3_600 + (minute - ahead) * 60 + second, valid


def _month(letters: Numbers) -> Numbers:
    """1 to 12 of three letters; 0 for others."""
    first, second, third = letters.astype(np.int32)
    code = first << 16 | second << 8 | third
    months = np.zeros(len(code), np.int32)
    for number, name in enumerate(_MONTHS, start=1):
        months[code == int.from_bytes(name.encode())] = number
    return months
