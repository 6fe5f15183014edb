"""Which columns of a sample are the time of the lines, and in which order the numbers of its dates are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of
from tidemark.parse.infer_kinds import MOST, Column
from tidemark.parse.infer_names import fields_named, is_of_another
from tidemark.parse.logtime import any_time
from tidemark.parse.time_forms import ORDERS, with_time

_DAY = 86_400
# Times that differ by this much at most are the same time in two notations, one of which is rounded.
_SAME_SECONDS = 1.0
# The gap at a change of the date, in days, that no log with lines just before and after it has.
_LONG_GAP = 20

# So many of the changes of the date are to a later one.
_MOSTLY = 0.9

# The fields of a time by the numbers of their columns.
Fields = Mapping[int, str]


@dataclass(frozen=True)
class Roles:
    """The readings of columns, the fields by their numbers: one if it is sure, two with a `question` if it is not.
    `notes` name the columns that are left out, and why."""

    readings: tuple[Fields, ...]
    question: str = ""
    notes: tuple[str, ...] = ()


def times_of(columns: Sequence[Column]) -> Roles | None:
    """The time of lines with these columns; None if they have none."""
    candidates = _candidates(columns)
    if not candidates:
        return None
    named = [
        each for each in candidates if any("time" in fields_named(columns[number].name) for number in each)
    ]
    if len(candidates) > 1 and len(named) == 1:
        candidates = named
    # A time with only one reading decides the order of another one's numbers.
    (first, *others), *further = sorted((_ordered(columns, each) for each in candidates), key=len)
    if others:
        return Roles((first, *others), _order_question(columns, first, others[0]))
    same = [first]
    for readings in further:
        equal = [each for each in readings if _same(columns, first, each)]
        if not equal:
            shown = " or ".join(_shown(columns, each) for each in (first, readings[0]))
            return Roles((first, readings[0]), f"which time is that of the request, {shown}?")
        same.append(equal[0])
    return Roles((max(same, key=lambda each: _rank(columns, each)),))


def _candidates(columns: Sequence[Column]) -> list[Fields]:
    """The times, each as fields of one column or of neighbouring ones."""
    candidates: list[Fields] = []
    for number, column in enumerate(columns):
        if is_of_another(column.name) or column.share < MOST:
            continue
        kinds = column.kinds
        ranks = fields_named(column.name)
        if "time" in kinds or ("epoch" in kinds and (not ranks or "time" in ranks)):
            candidates.append(_with_neighbours(columns, number, {number: "time"}))
        elif kinds & {"time_dmy", "time_mdy"}:
            candidates.append(_with_neighbours(columns, number, {number: "time_?"}))
        elif kinds & {"date", "date_dmy", "date_mdy"} and (clock := _clock(columns, number)) is not None:
            date = "date" if "date" in kinds else "date_?"
            candidates.append(_with_neighbours(columns, clock, {number: date, clock: "clock"}))
    return [each for each in candidates if not _has_unknown_zone(columns, max(each))]


def _has_unknown_zone(columns: Sequence[Column], last: int) -> bool:
    """Whether the name of a zone is right after a time, which would be another one without it."""
    return last + 1 < len(columns) and "unknown_zone" in columns[last + 1].kinds


def _clock(columns: Sequence[Column], date: int) -> int | None:
    """The clock beside a date."""
    beside = [
        number
        for number in (*range(date + 1, min(date + 4, len(columns))), date - 1)
        if number >= 0 and "clock" in columns[number].kinds and columns[number].share >= MOST
    ]
    return beside[0] if beside else None


def _with_neighbours(columns: Sequence[Column], last: int, fields: Fields) -> Fields:
    """The same with AM or PM, and the zone, right after it."""
    more = dict(fields)
    for kind in ("half", "zone"):
        behind = last + 1
        if behind < len(columns) and kind in columns[behind].kinds and columns[behind].share >= MOST:
            more[behind] = kind
            last = behind
    return more


def _ordered(columns: Sequence[Column], fields: Fields) -> list[Fields]:
    """The readings of a time whose date may be in either order; one if the lines decide it."""
    number = next((number for number, field in fields.items() if field.endswith("_?")), None)
    if number is None:
        return [fields]
    part = fields[number].removesuffix("_?")
    possible = [order for order in ORDERS if f"{part}_{order}" in columns[number].kinds]
    readings: list[Fields] = [{**fields, number: f"{part}_{order}"} for order in possible]
    if len(readings) == 2:
        seconds = [_seconds(columns, each) for each in readings]
        for one, other in ((0, 1), (1, 0)):
            if _is_later_and_later(seconds[one]) and (
                not _is_later_and_later(seconds[other]) or _leaps(seconds[one], seconds[other])
            ):
                return [readings[one]]
    return readings


def _seconds(columns: Sequence[Column], fields: Fields) -> np.ndarray:
    """Seconds since 1970 of the lines that have the time."""
    texts = with_time({field: columns[number].values for number, field in fields.items()})
    text = texts["time"]
    if "zone" in texts:
        text = pc.binary_join_element_wise(text, texts["zone"], "")
    times = any_time(text)[0].cast(pa.int64())
    seconds: np.ndarray = times.drop_null().to_numpy() / 1e6
    return seconds


def _is_later_and_later(seconds: np.ndarray) -> bool:
    """Whether days follow each other, but for a few."""
    steps = np.diff(seconds // _DAY)
    steps = steps[steps != 0]
    return bool(len(steps) and np.mean(steps > 0) >= _MOSTLY)


def _leaps(seconds: np.ndarray, others: np.ndarray) -> bool:
    """Whether every change of the date is to the next day by the first reading, and a long gap by the other."""
    steps = np.diff(seconds // _DAY)
    leaps = np.diff(others // _DAY)[steps > 0]
    steps = steps[steps > 0]
    return bool(len(steps) and len(leaps) and (steps == 1).all() and (leaps >= _LONG_GAP).all())


def _same(columns: Sequence[Column], one: Fields, other: Fields) -> bool:
    """Whether two times are the same, but for rounding. Of times with a zone and without one, the difference is that
    of the zone."""
    first, second = _seconds(columns, one), _seconds(columns, other)
    if len(first) != len(second):
        return False
    gaps = first - second
    shift = np.round(np.median(gaps) / 900) * 900 if _zoned(columns, one) != _zoned(columns, other) else 0.0
    return bool(np.mean(np.abs(gaps - shift) <= _SAME_SECONDS) >= MOST)


def _zoned(columns: Sequence[Column], fields: Fields) -> bool:
    if "zone" in fields.values() or any("epoch" in columns[number].kinds for number in fields):
        return True
    text = with_time({field: columns[number].values for number, field in fields.items()})["time"]
    return not flags_of(any_time(text)[1]).any()


def _rank(columns: Sequence[Column], fields: Fields) -> tuple[bool, bool]:
    """A time with a zone counts more, and then one that is more precise."""
    seconds = _seconds(columns, fields)
    return _zoned(columns, fields), bool((seconds % 1 != 0).any())


def _order_question(columns: Sequence[Column], one: Fields, other: Fields) -> str:
    number = next(number for number, field in one.items() if field.partition("_")[2] in ORDERS)
    value = columns[number].present[0].as_py()
    names = {"dmy": "day and month", "mdy": "month and day"}
    return (
        f"are the first numbers of {value} {names[one[number].partition('_')[2]]}, or"
        f" {names[other[number].partition('_')[2]]}?"
    )


def _shown(columns: Sequence[Column], fields: Fields) -> str:
    texts = (columns[number].present[0].as_py() for number in sorted(fields))
    name = next((columns[number].name for number in fields if columns[number].name), "")
    return f"{name} {' '.join(texts)}".strip()
