"""The state of one bus and its timers: a snapshot at every tick of the clock, and a row when it is silent."""

# ruff: noqa: N802, N803 - the names are those of the interface that Spark calls

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    ListState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)

from examples.bus_positions.motion import Position, latest_two, motion
from examples.bus_positions.routes import ROUTES

SNAPSHOT = (
    "bus string, tick timestamp, event_time timestamp, route string, x double, y double, along double, "
    "speed double, stops array<string>, arrivals array<bigint>, heard_at timestamp, silent boolean"
)
# After this long without a position the state of a bus is removed.
FORGET_MS = 24 * 3600 * 1000


class Tracker(StatefulProcessor):
    """Takes rows (bus, route, time in epoch ms, x, y), returns rows as in SNAPSHOT.

    The clock is Spark's processing time, which the checkpoint stores with each batch: a batch that
    runs again after a crash sees the same time. State: `latest`, the last two positions by event time; `watch`,
    the time of the last message and the last emitted snapshot.
    """

    def __init__(self, every_ms: int, silent_ms: int) -> None:
        self._every = every_ms
        self._silent = silent_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._latest: ListState = handle.getListState(
            "latest", "time long, x double, y double, route string", ttlDurationMs=FORGET_MS
        )
        self._watch: ValueState = handle.getValueState(
            "watch", "heard long, changed boolean, silent boolean", ttlDurationMs=FORGET_MS
        )

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        now = timerValues.getCurrentProcessingTimeInMs()
        before = self._positions()
        latest = latest_two([*before, *(Position(r["time"], r["x"], r["y"], r["route"]) for r in rows)])
        watch = self._watch.get() if self._watch.exists() else None
        if watch is None or watch[2]:
            self._handle.registerTimer(self._tick_after(now))
        changed = latest != before or watch is None or watch[1] or watch[2]
        self._latest.put([tuple(position) for position in latest])
        self._watch.update((now, changed, False))
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        latest = self._positions()
        if not latest or not self._watch.exists():
            return
        heard, changed, _ = self._watch.get()  # type: ignore[misc]
        now = timerValues.getCurrentProcessingTimeInMs()
        silent = now - heard >= self._silent
        if not silent:
            self._handle.registerTimer(self._tick_after(now))
        if changed or silent:
            self._watch.update((heard, False, silent))
            yield _snapshot(key[0], expiredTimerInfo.getExpiryTimeInMs(), latest, heard, silent)

    def _positions(self) -> tuple[Position, ...]:
        return tuple(Position(*row) for row in self._latest.get()) if self._latest.exists() else ()

    def _tick_after(self, now: int) -> int:
        """The next full tick: the same moments for all buses, so that their snapshots belong together."""
        return (now // self._every + 1) * self._every


def _snapshot(bus: str, tick: int, latest: tuple[Position, ...], heard: int, silent: bool) -> Row:
    last = latest[-1]
    known = motion(latest, ROUTES[last.route])
    return Row(
        bus=bus,
        tick=_time(tick),
        event_time=_time(last.time),
        route=last.route,
        x=last.x,
        y=last.y,
        along=known.along,
        speed=known.speed,
        stops=[stop for stop, _ in known.arrivals],
        arrivals=[time for _, time in known.arrivals],
        heard_at=_time(heard),
        silent=silent,
    )


def _time(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)
