"""Recounts the snapshots from the generated positions, in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from examples.bus_positions.routes import ROUTES

# A generated report: bus, route, epoch milliseconds, x, y.
Report = tuple[str, str, int, float, float]
_METRES = 1e-6


def differences(rows: Iterable[Mapping[str, Any]], reports: Iterable[Report]) -> Iterator[str]:
    """Errors in the snapshots (rows of the table, in order of tick), one line each.

    Each snapshot must be a reported position of its bus, with the speed from an earlier report, and must not go
    back in time. The last one of each bus must be its last report, with the speed from the previous one, and
    silent, because all buses are silent when the input has ended.
    """
    by_bus: dict[str, dict[int, Report]] = defaultdict(dict)
    for report in reports:
        by_bus[report[0]][report[2]] = report
    last: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        yield from _wrong(row, by_bus[row["bus"]], last.get(row["bus"]))
        last[row["bus"]] = row
    for bus in sorted(by_bus):
        if bus not in last:
            yield f"{bus} was never shown"
            continue
        times = sorted(by_bus[bus])
        shown = last[bus]
        if not shown["silent"]:
            yield f"{bus} does not end silent: {shown}"
        if _millis(shown["event_time"]) != times[-1]:
            yield f"{bus} ends with the position of {shown['event_time']}, not its last"
        if len(times) > 1:
            wanted = _speed(by_bus[bus][times[-2]], by_bus[bus][times[-1]])
            if not _same(shown["speed"], wanted):
                yield f"{bus} ends at {shown['speed']} m/s, should be {wanted}"
            yield from _wrong_arrivals(bus, shown, wanted)


def _wrong(
    row: Mapping[str, Any], reports: Mapping[int, Report], before: Mapping[str, Any] | None
) -> Iterator[str]:
    bus, time = row["bus"], _millis(row["event_time"])
    report = reports.get(time)
    if report is None or (row["route"], row["x"], row["y"]) != (report[1], report[3], report[4]):
        yield f"{bus} was never there: {row}"
        return
    if row["speed"] is not None and not any(
        _same(row["speed"], _speed(reports[earlier], report)) for earlier in reports if earlier < time
    ):
        yield f"{bus} was never that fast: {row}"
    if before is not None and (time < _millis(before["event_time"]) or row["tick"] <= before["tick"]):
        yield f"{bus} went back in time at {row['tick']}"


def _wrong_arrivals(bus: str, row: Mapping[str, Any], speed: float | None) -> Iterator[str]:
    """The expected stops, computed by following the route from the bus."""
    route = ROUTES[row["route"]]
    wanted: list[tuple[str, float]] = []
    if speed is not None and speed >= 0.5:
        ahead = [((s.along - row["along"]) % route.length or route.length, s.name) for s in route.stops]
        wanted = [
            (name, _millis(row["event_time"]) + metres / speed * 1000) for metres, name in sorted(ahead)[:3]
        ]
    announced = list(zip(row["stops"], row["arrivals"], strict=True))
    if [name for name, _ in announced] != [name for name, _ in wanted] or any(
        abs(a[1] - b[1]) > 1 for a, b in zip(announced, wanted, strict=True)
    ):
        yield f"{bus} is announced at {announced}, should be {wanted}"


def _speed(before: Report, last: Report) -> float | None:
    """Metres per second between two reports, None if the route changed; never negative."""
    route = ROUTES[last[1]]
    if before[1] != last[1]:
        return None
    metres = (route.along(last[3], last[4]) - route.along(before[3], before[4])) % route.length
    return 0.0 if metres > route.length * 0.9 else metres / ((last[2] - before[2]) / 1000)


def _same(value: float | None, wanted: float | None) -> bool:
    if value is None or wanted is None:
        return value is wanted
    return abs(value - wanted) <= _METRES


def _millis(time: datetime) -> int:
    return round(time.timestamp() * 1000)
