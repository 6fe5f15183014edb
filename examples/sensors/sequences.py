"""Windows without time: the last 100 readings, and readings while the value hardly changes.

Both use the order of arrival in the sensor's partition. The windowing functions work on arrays;
`Sequences` keeps their state in Spark, one row per sensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tidemark.contract.table import Column, Table

LAST, EVERY = 100, 10
THRESHOLD = 2.0

SEQUENCES = Table(
    name="sensors.sequences",
    about="One row per result of a count window or of a delta window.",
    kind="append",
    key=("kind", "sensor", "number"),
    time="",
    reads="readings",
    columns=(
        Column(
            "kind",
            "string",
            "`last_100`: the last 100 readings, after every tenth. `moved`: the readings that came until one differed"
            " from the first of them by more than 2.",
        ),
        Column("sensor", "string", "Sensor."),
        Column("number", "long", "`last_100`: readings of the sensor so far. `moved`: number of the window."),
        Column("readings", "long", "Readings in the window."),
        Column("average", "double", "Their mean."),
        Column("updated_at", "timestamp", "When the row was written."),
    ),
)

RESULT = "kind string, sensor string, number long, readings long, average double"


class Result(NamedTuple):
    """One result of a window, see SEQUENCES."""

    kind: str
    number: int
    readings: int
    average: float


@dataclass(frozen=True)
class Memory:
    """The state of a sensor between batches: its last readings, and the open delta window.

    `first` is the value that later ones are compared with; there is a delta window once `readings` > 0.
    """

    seen: int = 0
    last: tuple[float, ...] = ()
    number: int = 1
    first: float = 0.0
    readings: int = 0
    total: float = 0.0


MEMORY = "seen long, last array<double>, number long, first double, readings long, total double"


def count_windows(last: Sequence[float], seen: int, values: np.ndarray) -> list[Result]:
    """The results that `values` lead to, after `seen` readings of which `last` are the newest."""
    every = np.concatenate([np.asarray(last, dtype=float), values])
    sums = np.concatenate([[0.0], np.cumsum(every)])
    results = []
    for number in range(seen // EVERY * EVERY + EVERY, seen + len(values) + 1, EVERY):
        end = len(last) + number - seen
        size = min(LAST, number)
        results.append(Result("last_100", number, size, float(sums[end] - sums[end - size]) / size))
    return results


def delta_windows(memory: Memory, values: np.ndarray) -> tuple[list[Result], Memory]:
    """The windows that `values` end, and what is open after them."""
    number, first, readings, total = memory.number, memory.first, memory.readings, memory.total
    results, start = [], 0
    while start < len(values):
        if readings == 0:
            first = float(values[start])
        moved = np.abs(values[start:] - first) > THRESHOLD
        end = start + int(np.argmax(moved)) if moved.any() else len(values)
        readings += end - start
        total += float(values[start:end].sum())
        if end < len(values):
            results.append(Result("moved", number, readings, total / readings))
            number, readings, total = number + 1, 0, 0.0
        start = end
    return results, Memory(memory.seen, memory.last, number, first, readings, total)


def step(memory: Memory, values: np.ndarray) -> tuple[list[Result], Memory]:
    """All results of a sensor's next values, in order of arrival, and what to keep."""
    moved, kept = delta_windows(memory, values)
    results = count_windows(memory.last, memory.seen, values) + moved
    last = (*memory.last, *values.tolist())[-LAST:]
    return results, Memory(
        memory.seen + len(values), last, kept.number, kept.first, kept.readings, kept.total
    )


class Sequences(StatefulProcessor):
    """`step` for each sensor's readings of a micro-batch, sorted by their offset."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._memory = handle.getValueState("memory", MEMORY)

    def handleInputRows(  # noqa: N802 - the name is Spark's
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        readings = pd.concat(list(rows)).sort_values("offset")
        memory = Memory(*(self._memory.get() or ()))
        results, memory = step(memory, readings["value"].to_numpy(dtype=float))
        self._memory.update(
            (memory.seen, list(memory.last), memory.number, memory.first, memory.readings, memory.total)
        )
        if results:
            frame = pd.DataFrame(results)
            frame.insert(1, "sensor", key[0])
            yield frame

    def close(self) -> None:
        pass


def sequences(readings: DataFrame) -> DataFrame:
    """A stream of readings (`sensor`, `value`, `record`) to a stream of results."""
    return (
        readings.selectExpr("sensor", "value", "record.offset AS offset")
        .groupBy("sensor")
        .transformWithStateInPandas(Sequences(), RESULT, "Append", "None")
    )
