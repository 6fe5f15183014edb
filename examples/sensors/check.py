"""Recounts the expected averages, reading by reading, without Spark."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum
from typing import Any, NamedTuple

from examples.kit.load import Event, Load
from examples.kit.results import Results, differences
from examples.sensors.averages import AVERAGES, MINUTE, STEP, WATERMARK_DELAY
from examples.sensors.generator import events
from examples.sensors.sequences import EVERY, LAST, SEQUENCES, THRESHOLD
from examples.sensors.topics import READINGS


class Reading(NamedTuple):
    """A good reading; times in epoch seconds."""

    sensor: str
    value: float
    time: float
    ingested: float
    partition: int


@dataclass
class Window:
    """A window of time: its values, and how many came when it was final."""

    values: list[float] = field(default_factory=list)
    late: int = 0


Key = tuple[str, float, str]


def readings(sent: Iterable[Event]) -> Iterator[Reading]:
    """The good ones, in order of sending."""
    for event in sent:
        if not event.reason:
            fields = json.loads(event.value)
            time = datetime.fromisoformat(fields["event_time"]).timestamp()
            yield Reading(fields["sensor"], fields["value"], time, event.timestamp / 1000, event.partition)


def time_windows(sent: Iterable[Reading]) -> tuple[dict[Key, Window], float]:
    """The windows by (kind, start, sensor), those of processing time apart; and the watermark in the end."""
    delay = WATERMARK_DELAY.total_seconds()
    newest: dict[int, float] = {}
    windows: defaultdict[Key, Window] = defaultdict(Window)
    for reading in sent:
        watermark = newest.get(reading.partition, float("-inf")) - delay
        newest[reading.partition] = max(newest.get(reading.partition, reading.time), reading.time)
        minute = reading.time // MINUTE * MINUTE
        step = reading.time // STEP * STEP
        places = [("event", minute), ("ingestion", reading.ingested // MINUTE * MINUTE)]
        places += [("rolling", step - back) for back in range(0, MINUTE, STEP)]
        for kind, start in places:
            window = windows[kind, start, reading.sensor]
            window.values.append(reading.value)
            window.late += kind != "ingestion" and watermark >= start + MINUTE
    whole = len(newest) == READINGS.partitions
    return windows, min(newest.values()) - delay if whole else float("-inf")


def sequences(sent: Iterable[Reading]) -> dict[tuple[str, str, int], tuple[int, float]]:
    """Readings and their sum by (kind, sensor, number)."""
    results: dict[tuple[str, str, int], tuple[int, float]] = {}
    values: defaultdict[str, list[float]] = defaultdict(list)
    still: defaultdict[str, list[float]] = defaultdict(list)
    moves: Counter[str] = Counter()
    for sensor, value, *_ in sent:
        values[sensor].append(value)
        seen = len(values[sensor])
        if seen % EVERY == 0:
            last = values[sensor][-LAST:]
            results["last_100", sensor, seen] = len(last), _total(last)
        if still[sensor] and abs(value - still[sensor][0]) > THRESHOLD:
            moves[sensor] += 1
            results["moved", sensor, moves[sensor]] = len(still[sensor]), _total(still[sensor])
            still[sensor] = []
        still[sensor].append(value)
    return results


def check(load: Load, results: Results) -> Iterator[str]:
    """Differences from the expected results."""
    sent = list(readings(events(load)))
    windows, watermark = time_windows(sent)
    rows = results.table(AVERAGES).to_pylist()
    yield from differences(
        "average",
        {
            key: (len(w.values), _total(w.values), w.late, _final(key, watermark))
            for key, w in windows.items()
        },
        {
            _key(row): (*_latest(row), row["late"], row["final"])
            for row in rows
            if row["kind"] != "processing"
        },
    )
    # The processing time of a reading is unknown, but each reading must be in exactly one window.
    totals: Counter[str] = Counter()
    for row in rows:
        if row["kind"] == "processing":
            totals[row["sensor"]] += row["readings"]
    yield from differences("readings by processing time", Counter(r.sensor for r in sent), totals)
    yield from differences(
        "sequence",
        sequences(sent),
        {
            (row["kind"], row["sensor"], row["number"]): _latest(row)
            for row in results.table(SEQUENCES).to_pylist()
        },
    )


def _total(values: list[float]) -> float:
    # Readings and their sums have two decimals, so they can be compared exactly.
    return round(fsum(values), 2)


def _latest(row: dict[str, Any]) -> tuple[int, float]:
    return row["readings"], round(row["average"] * row["readings"], 2)


def _key(row: dict[str, Any]) -> Key:
    return row["kind"], row["window_start"].timestamp(), row["sensor"]


def _final(key: Key, watermark: float) -> bool | None:
    return None if key[0] == "ingestion" else watermark >= key[1] + MINUTE
