"""Patterns over a stream: the stateful processor to which `examples.kit.patterns` compile.

Events may be out of order by the watermark's delay: they wait in the state until the watermark
has passed them and then reach the matchers in order of time, so matches do not depend on the order of
arrival. Spark drops later events.
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
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)

from examples.kit.patterns import OPERATORS, Event, Match, Matcher, Pattern, Run, Where

MATCHES = "key string, pattern string, started_at timestamp, matched_at timestamp, ids array<string>"

# An event: time (ms), id, fields as JSON.
Waiting = tuple[int, str, str]


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
    has the columns of MATCHES; a match appears once the watermark has passed its last event. Events that match no
    step advance the watermark but are not kept in the state.
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
        # Spark would move a plain filter before the watermark, which would then miss other events. It does not move one
        # that depends on the time.
        .where(F.when(F.col("_fits"), F.col("time")).isNotNull())
        .drop("_fits")
        .groupBy("key")
        .transformWithState(PatternProcessor(patterns), MATCHES, "Append", "EventTime")
    )


def _fits_a_step(patterns: Sequence[Pattern]) -> Column:
    """Whether an event may match a step. True is a safe answer."""
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
    if condition.op in ("not in", "matches"):  # Java's regular expressions differ from Python's
        return column.isNotNull()
    compare: Callable[[Any, Any], Any] = OPERATORS[condition.op]
    return F.coalesce(compare(column, value), F.lit(False))


class PatternProcessor(StatefulProcessor):
    """For one key: events wait until the watermark has passed them, then every pattern's matcher gets them.

    Takes rows (key, time, id, fields as JSON), returns rows as in MATCHES. The state is one value, because each
    access is a round trip to the JVM: JSON with `waiting`, events that the watermark has not passed, and
    `runs`, the started matches of each pattern. It is cleared when both are empty.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._matchers = [Matcher(pattern) for pattern in patterns]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state: ValueState = handle.getValueState("state", "json string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        waiting, runs = self._load()
        due = min((time for time, _, _ in waiting), default=None)
        waiting += [(_millis(row["time"]), row["id"], row["fields"]) for row in rows]
        self._store(waiting, runs)
        first = min(time for time, _, _ in waiting)
        if due is None or first < due:
            self._handle.registerTimer(first)
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        watermark = timerValues.getCurrentWatermarkInMs()
        waiting, runs = self._load()
        passed = sorted(row for row in waiting if row[0] <= watermark)
        kept = [row for row in waiting if row[0] > watermark]
        events = [Event(time, id, json.loads(fields)) for time, id, fields in passed]
        expired: list[Match] = []
        for matcher in self._matchers:
            name = matcher.pattern.name
            begun, matches = matcher.feed(runs.get(name, []), events)
            # Further events at the watermark's time would be late, so this time is over.
            begun, ended = matcher.expire(begun, watermark + 1)
            runs[name] = begun
            expired += matches + ended
        self._store(kept, runs)
        self._await(kept, runs)
        for match in sorted(expired, key=lambda match: (match.completed, match.pattern)):
            yield Row(
                key=key[0],
                pattern=match.pattern,
                started_at=_timestamp(match.started),
                matched_at=_timestamp(match.completed),
                ids=list(match.ids),
            )

    def _load(self) -> tuple[list[Waiting], dict[str, list[Run]]]:
        stored = self._state.get()
        if stored is None:
            return [], {}
        state = json.loads(stored[0])
        runs = {
            name: [Run(taken, started, tuple(ids)) for taken, started, ids in begun]
            for name, begun in state["runs"].items()
        }
        return [(time, id, fields) for time, id, fields in state["waiting"]], runs

    def _store(self, waiting: list[Waiting], runs: dict[str, list[Run]]) -> None:
        under_way = {
            name: [(run.taken, run.started, run.ids) for run in begun]
            for name, begun in runs.items()
            if begun
        }
        if waiting or under_way:
            self._state.update((json.dumps({"waiting": waiting, "runs": under_way}),))
        else:
            self._state.clear()

    def _await(self, waiting: list[Waiting], runs: dict[str, list[Run]]) -> None:
        """Registers the timer that ends and removes expired runs without another event of the key."""
        times = [time for time, _, _ in waiting]
        for matcher in self._matchers:
            times += [matcher.deadline(run) for run in runs.get(matcher.pattern.name, [])]
        if times:
            self._handle.registerTimer(min(times))


def _millis(time: datetime) -> int:
    # Spark passes timestamps to Python as local times without a zone.
    return round(time.timestamp() * 1000)


def _timestamp(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, tz=UTC)
