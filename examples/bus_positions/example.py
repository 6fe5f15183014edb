"""The example for its command line: input, job, output, and the recount."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from examples.bus_positions.check import Report, differences
from examples.bus_positions.generator import events, falls_silent
from examples.bus_positions.job import SNAPSHOTS, job
from examples.kit.example import Example
from examples.kit.load import Load
from examples.kit.results import Results

# Event time passes thirty times as fast as the clock, so ticks are shorter, too.
EVERY_SECONDS = 2.0
SILENT_SECONDS = 5.0

_SHOWN = 4


def reports(load: Load) -> Iterator[Report]:
    """Every good position of the load."""
    for event in events(load):
        if not event.reason:
            fields = json.loads(event.value)
            time = round(datetime.fromisoformat(fields["event_time"]).timestamp() * 1000)
            yield fields["bus"], fields["route"], time, fields["x"], fields["y"]


def show(results: Results) -> Iterator[str]:
    """Some of the newest snapshots, and every bus that fell silent."""
    rows = sorted(results.fresh(SNAPSHOTS).to_pylist(), key=lambda row: (row["tick"], row["bus"]))
    for row in [row for row in rows if not row["silent"]][-_SHOWN:]:
        moves = f"{row['speed'] * 3.6:3.0f} km/h" if row["speed"] is not None else "speed ?"
        stops = ", ".join(
            f"{stop} {datetime.fromtimestamp(at / 1000, UTC):%H:%M:%S}"
            for stop, at in zip(row["stops"], row["arrivals"], strict=True)
        )
        yield f"{row['event_time']:%H:%M:%S}  {row['bus']:<6} {row['route']:<8} {moves}  {stops or 'standing'}"
    silent = [row["bus"] for row in rows if row["silent"]]
    if silent:
        yield f"silent: {', '.join(silent)}"


def check(load: Load, results: Results) -> Iterator[str]:
    """Compares all snapshots with the generated positions, and the silent buses with the expected ones."""
    rows = results.table(SNAPSHOTS).sort_by([("tick", "ascending")]).to_pylist()
    yield from differences(rows, reports(load))
    silent = {row["bus"] for row in rows if row["silent"]}
    yield from (f"{bus} fell silent unnoticed" for bus in sorted(falls_silent(load).keys() - silent))


EXAMPLE = Example(
    "examples.bus_positions", job(EVERY_SECONDS, SILENT_SECONDS), events, show, check, rate=100.0
)
