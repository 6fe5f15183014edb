"""Sessions as intervals with their viewed items, and the changes of co-visits that follow from changed sessions.

A late view may merge two sessions into one. Then two rows are deleted and one is inserted, and the count of every pair
of items that both had decreases by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

# A session of more items is probably a crawler's, and its pairs grow with the square.
MOST_ITEMS = 100

# Changes of a row, as Delta's change data feed calls them, and what each does to the counts of its pairs.
CHANGES = {"insert": 1, "update_postimage": 1, "update_preimage": -1, "delete": -1}


@dataclass(frozen=True)
class Session:
    """One visitor's views without a gap; items in order of name."""

    visitor: str
    start: datetime
    end: datetime
    views: int
    items: tuple[str, ...]


def sessionize(views: DataFrame, gap: timedelta) -> DataFrame:
    """Sessions among the given views alone.

    Takes `visitor`, `item`, `event_time`; gives `visitor`, `start_time`, `end_time`, `views` and `items`
    (distinct, in order of name).
    """
    by_visitor = Window.partitionBy("visitor").orderBy("event_time")
    waited = F.unix_micros("event_time") - F.lag(F.unix_micros("event_time")).over(by_visitor)
    starts = F.coalesce(waited >= gap // timedelta(microseconds=1), F.lit(True)).cast("int")
    return (
        views.withColumn("_starts", starts)
        .withColumn("_session", F.sum("_starts").over(by_visitor))
        .groupBy("visitor", "_session")
        .agg(
            F.min("event_time").alias("start_time"),
            F.max("event_time").alias("end_time"),
            F.count("*").alias("views"),
            F.array_sort(F.collect_set("item")).alias("items"),
        )
        .drop("_session")
    )


def join(sessions: Iterable[Session], gap: timedelta) -> list[Session]:
    """Merges sessions that lie within the gap of each other. The result does not depend on the order
    and grouping of the views."""
    by_visitor = defaultdict(list)
    for session in sessions:
        by_visitor[session.visitor].append(session)
    return [joined for own in by_visitor.values() for joined in _sweep(own, gap)]


def co_visits(changes: DataFrame) -> DataFrame:
    """The effect of changed sessions (`items`, `_change_type`) on the counts: `item`, `also`, `sessions` (may be
    negative, never 0). An item's pair with itself counts the sessions that it is in."""
    sign = F.coalesce(
        *(F.when(F.col("_change_type") == kind, F.lit(value)) for kind, value in CHANGES.items())
    )
    return (
        changes.where(F.size("items") <= MOST_ITEMS)
        .select(sign.alias("_sign"), "items", F.explode("items").alias("item"))
        .select("_sign", "item", F.explode("items").alias("also"))
        .groupBy("item", "also")
        .agg(F.sum("_sign").alias("sessions"))
        .where("sessions <> 0")
    )


def also_viewed(counts: Iterable[tuple[str, str, int]], top: int) -> dict[str, list[tuple[str, float]]]:
    """For each item the `top` others most often viewed in the same session, by cosine similarity: the
    sessions with both, over the root of the product of the sessions with each (Linden, Smith, York:
    "Amazon.com Recommendations", 2003). Takes (item, also, sessions), both ways round and with itself."""
    rows = list(counts)
    alone = {item: sessions for item, also, sessions in rows if item == also}
    scored: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for item, also, sessions in rows:
        if item != also:
            scored[item].append((also, round(sessions / (alone[item] * alone[also]) ** 0.5, 9)))
    return {item: sorted(others, key=lambda o: (-o[1], o[0]))[:top] for item, others in scored.items()}


def _sweep(sessions: list[Session], gap: timedelta) -> Iterator[Session]:
    ordered = sorted(sessions, key=lambda session: session.start)
    parts = ordered[:1]
    for session in ordered[1:]:
        if session.start - max(part.end for part in parts) >= gap:
            yield _joined(parts)
            parts = []
        parts.append(session)
    yield _joined(parts)


def _joined(parts: list[Session]) -> Session:
    if len(parts) == 1:
        return parts[0]
    return Session(
        parts[0].visitor,
        min(part.start for part in parts),
        max(part.end for part in parts),
        sum(part.views for part in parts),
        tuple(sorted({item for part in parts for item in part.items})),
    )


def session_of(row: dict[str, Any]) -> Session:
    """A session from a row of `sessionize` or of the sessions table."""
    return Session(row["visitor"], row["start_time"], row["end_time"], row["views"], tuple(row["items"]))
