"""Recounts the expected results ride by ride without Spark, and prints results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from examples.kit.load import Event, Load
from examples.kit.results import Results, differences, once
from examples.ski_lifts.generator import events
from examples.ski_lifts.job import (
    ALLOWED_LATENESS_MINUTES,
    LATE_RIDES,
    RIDES_PER_LIFT,
    SLIDE_MINUTES,
    WINDOW_MINUTES,
)


def truth(sent: Iterable[Event]) -> tuple[Counter[tuple[str, float]], Counter[tuple[str, str, float]]]:
    """Rides by (lift, epoch second of the window's start), and the late ones by (lift, pass, second)."""
    size, slide, lateness = (m * 60 for m in (WINDOW_MINUTES, SLIDE_MINUTES, ALLOWED_LATENESS_MINUTES))
    windows: Counter[tuple[str, float]] = Counter()
    late: Counter[tuple[str, str, float]] = Counter()
    newest: dict[int, float] = {}
    for event in sent:
        if event.reason:
            continue
        ride = json.loads(event.value)
        time = datetime.fromisoformat(ride["event_time"]).timestamp()
        watermark = newest.get(event.partition, float("-inf"))
        newest[event.partition] = max(watermark, time)
        last = time // slide * slide
        open_starts = [
            start
            for start in (last, last - slide)
            if time < start + size and watermark < start + size + lateness
        ]
        for start in open_starts:
            windows[ride["lift"], start] += 1
        if not open_starts:
            late[ride["lift"], ride["pass"], time] += 1
    return windows, late


def check(load: Load, results: Results) -> Iterator[str]:
    """Differences from the expected results."""
    windows, late = truth(events(load))
    rows = results.table(RIDES_PER_LIFT).to_pylist()
    yield from differences(
        "rides", windows, {(row["lift"], row["window_start"].timestamp()): row["rides"] for row in rows}
    )
    rides = Counter(
        (ride["lift"], ride["pass"], datetime.fromisoformat(ride["event_time"]).timestamp())
        for ride in (json.loads(message.value) for message in once(results.messages(LATE_RIDES)))
    )
    yield from differences("late ride", late, rides)


def show(results: Results) -> Iterator[str]:
    """A line for each window that has changed, and one for new late rides."""
    changed = {row["window_start"] for row in results.fresh(RIDES_PER_LIFT).to_pylist()}
    if changed:
        rows = [row for row in results.table(RIDES_PER_LIFT).to_pylist() if row["window_start"] in changed]
        for start in sorted(changed):
            ours = sorted((row for row in rows if row["window_start"] == start), key=lambda row: row["lift"])
            lifts = "  ".join(f"{row['lift']} {row['rides']}" for row in ours)
            yield f"{start.astimezone(UTC):%H:%M}-{ours[0]['window_end'].astimezone(UTC):%H:%M}  {lifts}"
    late = results.new_messages(LATE_RIDES)
    if late:
        yield f"too late for any window: {len(late)} rides"
