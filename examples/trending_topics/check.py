"""Recounts the trends in SQL from the generated messages, without sketches and without Spark."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import pyarrow as pa

from examples.trending_topics.trends import Definition, Trend

_SQL = """
WITH mentions AS (SELECT second // 60 AS minute, topic FROM made),
counts AS (SELECT minute, topic, count(*) AS n FROM mentions GROUP BY ALL),
known AS (SELECT DISTINCT minute FROM mentions),
ends AS (
    SELECT unnest(generate_series(min(minute) + 1, max(minute) + $window + $history)) AS stop FROM known
),
windows AS (SELECT stop, stop - $window AS start FROM ends WHERE stop % $slide = 0),
weights AS (
    SELECT stop, minute, pow(0.5, (start - minute)::DOUBLE / $half_life) AS weight
    FROM windows JOIN known ON minute >= start - $history AND minute < start
),
pasts AS (
    SELECT stop, sum(weight) AS total FROM weights GROUP BY stop HAVING count(*) >= $least_history
),
present AS (
    SELECT stop, topic, sum(n)::BIGINT AS messages
    FROM windows JOIN pasts USING (stop) JOIN counts ON minute >= start AND minute < stop
    GROUP BY ALL HAVING sum(n) >= $floor
),
scored AS (
    SELECT stop, topic, messages, $window * coalesce(sum(weight * n), 0) / any_value(total) AS expected,
        round((messages - expected) / sqrt(expected + 1), 6) AS score
    FROM present JOIN pasts USING (stop)
    LEFT JOIN (SELECT stop, topic, weight, n FROM weights JOIN counts USING (minute)) USING (stop, topic)
    GROUP BY stop, topic, messages
)
SELECT stop, row_number() OVER (PARTITION BY stop ORDER BY score DESC, topic) AS rank, topic, messages, expected, score
FROM scored WHERE score >= $least_score
QUALIFY rank <= $top ORDER BY stop, rank
"""


def recount(mentions: Iterable[tuple[int, str]], definition: Definition) -> list[Trend]:
    """The trends of all windows, from (epoch second, topic) of every message with every topic in it."""
    seconds, topics = zip(*mentions, strict=True)
    names = ("window", "slide", "history", "half_life", "least_history", "floor", "least_score", "top")
    with duckdb.connect() as database:
        database.register("made", pa.table({"second": seconds, "topic": topics}))
        rows = database.execute(_SQL, {name: getattr(definition, name) for name in names}).fetchall()
    return [Trend(*row) for row in rows]


def differences(actual: Iterable[Trend], expected: Iterable[Trend]) -> list[str]:
    """One line per trend that is missing, unexpected or has other numbers; floats may differ by rounding."""
    ours = {(trend.end, trend.rank): trend for trend in actual}
    theirs = {(trend.end, trend.rank): trend for trend in expected}
    return [
        f"window to minute {key[0]}, rank {key[1]}: found {ours.get(key)}, recounted {theirs.get(key)}"
        for key in sorted(ours.keys() | theirs.keys())
        if not _same(ours.get(key), theirs.get(key))
    ]


def _same(a: Trend | None, b: Trend | None) -> bool:
    if a is None or b is None:
        return False
    return (a.topic, a.messages) == (b.topic, b.messages) and all(
        abs(x - y) <= 1e-6 * max(1.0, abs(y)) for x, y in ((a.expected, b.expected), (a.score, b.score))
    )
