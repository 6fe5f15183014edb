"""Which columns of numbers are the size of the answer and the duration of the request, and in which unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of, matches, where
from tidemark.parse.infer_kinds import MOST, Column
from tidemark.parse.infer_names import fields_named, unit_named

# Pairs of requests of the same target and status, of which the sizes are compared.
_PAIRS = 20
_MOSTLY = 0.5
# So much evidence decides that numbers are sizes.
_CERTAIN = 2
_LARGE = 1_000
# A request takes longer than this many microseconds, and less than this many seconds.
_LEAST_MICROS = 20
_MOST_SECONDS = 600
# Of many requests, half take less than these seconds.
_USUAL_SECONDS = 1.0
_LONG_SECONDS = 30.0
_NUMBER = r"^\d+(?:\.\d+)?$"


def unit_of(column: Column) -> str:
    """The unit of a column of durations without one in its values: s, ms, us, or empty if it is not certain."""
    if unit := unit_named(column.name):
        return unit
    numbers = _numbers(column)
    if not len(numbers):
        return ""
    low, middle, high = np.percentile(numbers, [5, 50, 95])
    if flags_of(pc.match_substring(column.present, ".")).mean() >= _MOSTLY:
        return _unit_of_decimals(column, low, middle)
    if high > _MOST_SECONDS * 1_000:
        return "us"
    if low < _LEAST_MICROS and middle >= 1 and high >= _LONG_SECONDS:
        return "ms"
    return ""


def _unit_of_decimals(column: Column, low: float, middle: float) -> str:
    if middle >= _LONG_SECONDS:
        return "ms"
    thousandths = matches(column.present, r"^\d+\.\d{3}$").mean() >= MOST
    # In milliseconds, a request of less than 0.02 would have taken less than 20 microseconds.
    if middle < _USUAL_SECONDS and (thousandths or low < _LEAST_MICROS / 1_000):
        return "s"
    return ""


def looks_like_duration(column: Column) -> bool:
    """Whether numbers without a name can only be the duration of a request: decimals as nginx and Python write them."""
    digits = matches(column.present, r"^\d+\.(?:\d{3}|\d{6})$")
    return "decimal" in column.kinds and digits.mean() >= MOST and unit_of(column) == "s"


def size_of(
    columns: Sequence[Column], candidates: Sequence[int], fields: dict[int, str]
) -> tuple[int | None, str]:
    """The column of the size of the answer among whole numbers without a name, and what is not certain about it.

    Servers write the size after the status. Files keep their size from request to request, durations do not; answers
    without a body have none. Half of the durations are no longer than a second.
    """
    candidates = [number for number in candidates if not _rises(columns[number])]
    if not candidates:
        return None, ""
    place = {field: number for number, field in fields.items()}
    large = [number for number in candidates if np.median(_numbers(columns[number])) >= _LARGE]
    evidence = {number: _evidence(columns, number, place) for number in candidates}
    if large == [place["status"] + 1]:
        evidence[large[0]] += _CERTAIN
    best = max(evidence.values())
    likely = [number for number, weight in evidence.items() if weight == best]
    if best >= _CERTAIN and len(likely) == 1:
        return likely[0], ""
    shown = " and ".join(shown_of(columns[number]) for number in candidates)
    return None, f"{shown} may be the size of the answer or a duration: left out"


def _evidence(columns: Sequence[Column], number: int, place: dict[str, int]) -> int:
    """How much says that numbers are the size of the answer."""
    values, status = columns[number].values, columns[place["status"]].values
    dashes = flags_of(pc.equal(values, "-"))
    weight = int(number == place["status"] + 1) + int(dashes.any())
    empty = flags_of(pc.is_in(status, pa.array(["204", "304"])))
    zero = dashes | flags_of(pc.equal(values, "0"))
    if empty.any() and not empty.all() and zero[empty].mean() >= _MOSTLY and zero[~empty].mean() < _MOSTLY:
        weight += _CERTAIN
    request_place = next((place[each] for each in ("request", "target") if each in place), None)
    return weight + (
        0 if request_place is None else _of_targets(columns[request_place].values, status, values)
    )


def _of_targets(target: pa.Array, status: pa.Array, value: pa.Array) -> int:
    """How much says that a target has the same value again and again, compared with what chance would do, and with
    whatever request comes next."""
    answered = flags_of(pc.equal(status, "200"))
    keys = where(answered, target, None).dictionary_encode().indices
    keys, rows = keys.drop_null().to_numpy(), np.flatnonzero(flags_of(pc.is_valid(keys)))
    values = value.dictionary_encode().indices.fill_null(-1).to_numpy()[rows]
    order = np.argsort(keys, kind="stable")
    pairs = np.diff(keys[order]) == 0
    if pairs.sum() < _PAIRS:
        return 0
    alike = np.mean(np.diff(values[order])[pairs] == 0)
    _, counts = np.unique(values, return_counts=True)
    chance = max(np.sum((counts / counts.sum()) ** 2), np.mean(np.diff(values) == 0))
    if alike >= max(_MOSTLY, chance + 0.3):
        return _CERTAIN
    return -1 if len(counts) >= _PAIRS else -1 - _CERTAIN


def longest(columns: Sequence[Column], candidates: Sequence[int]) -> int | None:
    """Of several durations the one that includes the others; None if it is not certain."""
    values = [_filled(columns[number]) for number in candidates]
    for number, one in zip(candidates, values, strict=True):
        if columns[number].share >= MOST and all(np.mean(one >= other - 1e-9) >= MOST for other in values):
            return number
    return None


def _filled(column: Column) -> np.ndarray:
    number = matches(column.values, _NUMBER)
    filled: np.ndarray = where(number, column.values, "0").fill_null("0").cast(pa.float64()).to_numpy()
    return filled


def _rises(column: Column) -> bool:
    """Whether numbers only rise from line to line, as those that count requests."""
    numbers = _numbers(column)
    return len(numbers) > _PAIRS and bool(np.mean(np.diff(numbers) > 0) >= MOST)


def _numbers(column: Column) -> np.ndarray:
    number = matches(column.present, _NUMBER)
    numbers: np.ndarray = column.present.filter(pa.array(number)).cast(pa.float64()).to_numpy()
    return numbers


def is_named_duration(column: Column) -> bool:
    """Whether a name says that the numbers, of which some may have decimals, are durations."""
    if "duration" not in fields_named(column.name) or not len(column.present):
        return False
    return len(_numbers(column)) / len(column.present) >= MOST or bool(column.kinds & {"integer", "decimal"})


def shown_of(column: Column) -> str:
    """A column as messages name it."""
    values = ", ".join(pc.unique(column.present).slice(0, 3).to_pylist())
    return f"{column.name} ({values}, …)" if column.name else f"a column ({values}, …)"
