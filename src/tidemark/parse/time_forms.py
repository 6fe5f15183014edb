"""Further notations of a time, which own formats may have, rewritten to one that `tidemark.parse.logtime` reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, flags_of, matches, where

# Times that need no rewriting.
_USUAL = (
    r"^\[?(?:\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?[+-]\d\d:?\d\d)?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)? ?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?:\d{9,10}|\d{13}|\d{16}|\d{19})(?:\.\d+)?)\]?$"
)
_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?P<fraction>[.,]\d{1,9})?)?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
# The offset counts; the name of the zone after it is left out.
_ZONE = r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)(?: (?:[A-Z]{3,4}|\([A-Za-z ]+\)))?)?"
# Names of zones that mean one offset: those of RFC 5322 and of Europe's and Japan's times. Others, such as BST and IST,
# mean several.
ZONES = {
    "EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500", "MST": "-0700", "MDT": "-0600", "PST": "-0800",
    "PDT": "-0700", "WET": "+0000", "WEST": "+0100", "CET": "+0100", "CEST": "+0200", "EET": "+0200", "EEST": "+0300",
    "MSK": "+0300", "JST": "+0900",
}  # fmt: skip
# A zone by its name or its offset.
ZONE = rf"Z|UTC|GMT|{'|'.join(ZONES)}|[+-]\d\d:?\d\d"
_OF_ZONE = (
    r"^(?P<head>(?:.*[^+\d-])?\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?) ?"
    rf"(?P<zone>{'|'.join(ZONES)})(?P<year>(?: \d{{4}})?)$"
)
# A month in other letters, and a colon in front of the fraction.
_MONTH = r"^(?P<day>\d\d?[/-])(?P<month>[A-Z]{3}|[a-z]{3})(?P<rest>[/-]\d{4}.*)$"
_FRACTION = r"(:\d\d:\d\d):(\d{3,9})( |$)"
_BETWEEN = r"(?:[ T:_,]+|,? - )"
_FORMS = (
    rf"(?P<year>\d{{4}})[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?){_BETWEEN}{_CLOCK}{_ZONE}",
    r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)[ T_-]?"
    rf"(?P<hour>\d\d):?(?P<minute>\d\d):?(?P<second>\d\d)(?P<fraction>[.,]\d{{1,9}})?(?P<half>){_ZONE}",
    rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{{4}}){_BETWEEN}{_CLOCK}{_ZONE}",
    # The usual time of access logs with a number for the month, which cPanel writes first, and always -0000 behind it.
    rf"(?P<month>0\d|1[0-2])/(?P<day>\d\d)/(?P<year>\d{{4}}):{_CLOCK} (?P<zone>-0000)",
    rf"(?P<day>\d\d)/(?P<month>\d\d)/(?P<year>\d{{4}}):{_CLOCK} (?P<zone>[+-]\d\d\d\d)",
)
# Dates whose first two numbers are day and month in an order that only their reader knows.
_ORDERED = {
    "dmy": rf"(?P<day>\d\d?)[/-](?P<month>\d\d?)[/-](?P<year>\d{{4}}){_BETWEEN}{_CLOCK}{_ZONE}",
    "mdy": rf"(?P<month>\d\d?)[/-](?P<day>\d\d?)[/-](?P<year>\d{{4}}){_BETWEEN}{_CLOCK}{_ZONE}",
}
ORDERS = tuple(_ORDERED)
# The fields by which an own format says that order.
ORDERED_FIELDS = tuple(f"{part}_{order}" for part in ("time", "date") for order in ORDERS)


def with_time(texts: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """The texts of fields with `time` in one notation, put together from `date`, `clock` and `half` (AM or PM) where it
    is in parts."""
    parts = dict(texts)
    order = ""
    for field in ORDERED_FIELDS:
        if field in parts:
            name, order = field.split("_")
            parts[name] = parts.pop(field)
    if "date" in parts and "clock" in parts:
        half = [parts["half"]] if "half" in parts else []
        parts["time"] = pc.binary_join_element_wise(parts["date"], parts["clock"], *half, " ")
    if "time" in parts:
        parts["time"] = rewritten(parts["time"], order)
    return parts


def rewritten(text: pa.Array, order: str = "") -> pa.Array:
    """Times in the notation of ISO 8601 where they are in another one; others as they are.

    Names of zones become offsets. Reads `2026/11/21 - 10:00:00`, `2026-11-21 10:00:00 PM`, `20261121T100000Z` and
    `21.11.2026 10:00`, and in the `order` dmy or mdy also `21/11/2026 10:00:00` or `11/21/2026 10:00:00`.
    """
    if matches(text, _USUAL).all():
        return text
    coded = pc.utf8_trim(text, "[] ").dictionary_encode()
    times = _spelled(coded.dictionary)
    open_ = ~matches(times, _USUAL)
    for form in (_ORDERED[order], *_FORMS) if order else _FORMS:
        if not open_.any():
            break
        parts = pc.extract_regex(where(open_, times, None), f"^{form}$")
        matching = flags_of(pc.is_valid(parts))
        if matching.any():
            times = where(~matching, times, _iso(parts))
            open_ &= ~matching
    return times.take(coded.indices)


def _spelled(times: pa.Array) -> pa.Array:
    """The times with offsets in place of names of zones, and with months and fractions in the usual spelling."""
    times = pc.replace_substring_regex(times, _FRACTION, r"\1.\2\3")
    parts = pc.extract_regex(times, _MONTH)
    if parts.null_count < len(parts):
        day, month, rest = parts.flatten()
        times = pc.coalesce(pc.binary_join_element_wise(day, pc.utf8_capitalize(month), rest, ""), times)
    parts = pc.extract_regex(times, _OF_ZONE)
    if parts.null_count < len(parts):
        head, zone, year = parts.flatten()
        offsets = pa.array(list(ZONES.values())).take(pc.index_in(zone, pa.array(list(ZONES))))
        times = pc.coalesce(pc.binary_join_element_wise(head, " ", offsets, year, ""), times)
    return times


def _iso(parts: pa.StructArray) -> pa.Array:
    def number(name: str) -> pa.Array:
        return pc.utf8_lpad(pc.replace_substring_regex(pc.struct_field(parts, name), "^$", "00"), 2, "0")

    fraction = pc.replace_substring(pc.struct_field(parts, "fraction"), ",", ".")
    zone = pc.struct_field(parts, "zone")
    zone = where(~flags_of(pc.is_in(zone, pa.array(["UTC", "GMT"]))), zone, "Z")
    short = flags_of(pc.equal(pc.binary_length(zone), 3))
    zone = where(~short, zone, pc.binary_join_element_wise(zone, "00", ""))
    date = pc.binary_join_element_wise(pc.struct_field(parts, "year"), number("month"), number("day"), "-")
    clock = pc.binary_join_element_wise(_hour(parts), number("minute"), number("second"), ":")
    return pc.binary_join_element_wise(date, "T", clock, fraction, zone, "")


def _hour(parts: pa.StructArray) -> pa.Array:
    """The hour of the day in two digits; of a clock with twelve hours, `half` is A or P."""
    text = pc.struct_field(parts, "hour")
    half = pc.utf8_upper(pc.struct_field(parts, "half"))
    halved: Flags = flags_of(pc.is_in(half, pa.array(["A", "P"])))
    if halved.any():
        hour = text.cast(pa.int64())
        # There is no hour 0 or 13 before or after noon.
        sound = flags_of(pc.and_(pc.greater(hour, 0), pc.less_equal(hour, 12)))
        of_twelve = pc.subtract(hour, pc.multiply(pc.divide(hour, 12), 12))
        afternoon = pa.array(np.where(flags_of(pc.equal(half, "P")), 12, 0))
        text = where(~halved, text, where(sound, pc.add(of_twelve, afternoon).cast(pa.string()), "99"))
    return pc.utf8_lpad(text, 2, "0")
