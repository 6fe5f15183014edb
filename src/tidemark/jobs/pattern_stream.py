"""Patterns over a stream: the stateful processor that `tidemark.jobs.patterns` compile to.

Events may come out of order by as much as the watermark's delay: they wait in the state until the watermark
has passed them and are then given to the matchers in order of time, so the matches do not depend on how the
events arrived. Later ones are dropped by Spark.
"""

# ruff: noqa: N802, N803 - the names are those of the interface that Spark calls

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    ListState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)

from tidemark.jobs.patterns import OPERATORS, Event, Match, Matcher, Pattern, Run, Where

MATCHES = "key string, pattern string, started_at timestamp, matched_at timestamp, ids array<string>"


def detect(
    events: DataFrame,
    patterns: Sequence[Pattern],
    *,
    key: str = "key",
    time: str = "time",
    id: str = "id",
    lateness: str = "10 seconds",
) -> DataFrame:
    """Matches of the patterns in a stream of events.

    `events` has the columns `key` and `id` (text), `time` (timestamp) and the fields of the conditions;
    ids are unique. `lateness` is how far an event may lag the newest. The result, for output mode append,
    has the columns of MATCHES; a match comes once the watermark has passed its last event. Events that fit no
    step move the watermark but do not get into the state.
    """
    fields = sorted({field for pattern in patterns for field in pattern.fields})
    return (
        events.withColumn("_fits", _fits_a_step(patterns))
        .select(
            F.col(key).cast("string").alias("key"),
            F.col(time).alias("time"),
            F.col(id).cast("string").alias("id"),
            F.to_json(F.struct(*[F.col(field) for field in fields])).alias("fields"),
            "_fits",
        )
        .withWatermark("time", lateness)
        # Spark would move a plain filter to before the watermark, which then saw these events only; not one
        # that depends on the time.
        .where(F.when(F.col("_fits"), F.col("time")).isNotNull())
        .drop("_fits")
        .groupBy("key")
        .transformWithState(PatternProcessor(patterns), MATCHES, "Append", "EventTime")
    )


def _fits_a_step(patterns: Sequence[Pattern]) -> Column:
    """Whether an event may fit any step. True is a safe answer."""
    steps = [
        reduce(Column.__and__, [_may_hold(condition) for condition in step.where], F.lit(True))
        for pattern in patterns
        for step in pattern.steps
    ]
    return F.coalesce(reduce(Column.__or__, steps), F.lit(False))


def _may_hold(condition: Where) -> Column:
    column, value = F.col(condition.field), condition.value
    if condition.op == "in":
        return column.isin(list(value))
    if condition.op in ("not in", "matches"):  # Java's regular expressions are not Python's
        return column.isNotNull()
    compare: Callable[[Any, Any], Any] = OPERATORS[condition.op]
    return F.coalesce(compare(column, value), F.lit(False))


class PatternProcessor(StatefulProcessor):
    """For one key: events wait until the watermark has passed them, then every pattern's matcher has them.

    Takes rows (key, time, id, fields as JSON), gives rows as in MATCHES. State: `waiting`, events not yet
    passed by the watermark; `runs`, the beginnings of each pattern as JSON. Both are empty again when
    nothing is under way.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._matchers = [Matcher(pattern) for pattern in patterns]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._waiting: ListState = handle.getListState("waiting", "time long, id string, fields string")
        self._runs: ValueState = handle.getValueState("runs", "json string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        arrived = [(_millis(row["time"]), row["id"], row["fields"]) for row in rows]
        if arrived:
            self._waiting.appendList(arrived)
        for time in {time for time, _, _ in arrived}:
            self._handle.registerTimer(time)
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        watermark = timerValues.getCurrentWatermarkInMs()
        waiting = list(self._waiting.get()) if self._waiting.exists() else []
        passed = sorted(row for row in waiting if row[0] <= watermark)
        self._keep(waiting, len(passed), watermark)
        events = [Event(time, id, json.loads(fields)) for time, id, fields in passed]
        runs = self._load()
        found: list[Match] = []
        for matcher in self._matchers:
            name = matcher.pattern.name
            begun, matches = matcher.feed(runs.get(name, []), events)
            # An event at the watermark's own time has come, any other would be late: time is over after it.
            begun, ended = matcher.expire(begun, watermark + 1)
            runs[name] = begun
            found += matches + ended
        self._store(runs)
        for match in sorted(found, key=lambda match: (match.completed, match.pattern)):
            yield Row(
                key=key[0],
                pattern=match.pattern,
                started_at=_timestamp(match.started),
                matched_at=_timestamp(match.completed),
                ids=list(match.ids),
            )

    def _keep(self, waiting: list[tuple[int, str, str]], passed: int, watermark: int) -> None:
        if passed == len(waiting):
            self._waiting.clear()
        elif passed:
            self._waiting.put([row for row in waiting if row[0] > watermark])

    def _load(self) -> dict[str, list[Run]]:
        if not self._runs.exists():
            return {}
        (stored,) = self._runs.get()  # type: ignore[misc]
        return {
            name: [Run(taken, started, tuple(ids)) for taken, started, ids in runs]
            for name, runs in json.loads(stored).items()
        }

    def _store(self, runs: dict[str, list[Run]]) -> None:
        under_way = {name: begun for name, begun in runs.items() if begun}
        if not under_way:
            self._runs.clear()
            return
        self._runs.update(
            (
                json.dumps(
                    {name: [(r.taken, r.started, r.ids) for r in begun] for name, begun in under_way.items()}
                ),
            )
        )
        # So that runs whose time is over are ended, and forgotten, without another event of the key.
        for matcher in self._matchers:
            for run in under_way.get(matcher.pattern.name, []):
                self._handle.registerTimer(matcher.deadline(run))


def _millis(time: datetime) -> int:
    # Spark hands timestamps to Python as local times without a zone.
    return round(time.timestamp() * 1000)


def _timestamp(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, tz=UTC)
