"""Recounts sessions and co-visits in SQL from the generated views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

import duckdb
import pyarrow as pa

from examples.recommendations.visits import MOST_ITEMS

_SQL = """
WITH waits AS (
    SELECT *, second - lag(second) OVER (PARTITION BY visitor ORDER BY second) AS waited FROM made
),
numbered AS (
    SELECT visitor, item,
        sum(CASE WHEN waited < $gap THEN 0 ELSE 1 END) OVER (PARTITION BY visitor ORDER BY second) AS session
    FROM waits
),
seen AS (SELECT DISTINCT visitor, session, item FROM numbered),
small AS (SELECT visitor, session FROM seen GROUP BY ALL HAVING count(*) <= $most),
usable AS (SELECT * FROM seen SEMI JOIN small USING (visitor, session))
SELECT a.item, b.item, count(*) FROM usable a JOIN usable b USING (visitor, session) GROUP BY ALL
"""

Pairs = Mapping[tuple[str, str], int]


def recount(views: Iterable[tuple[float, str, str]], gap: timedelta) -> dict[tuple[str, str], int]:
    """Sessions in which both items of a pair were viewed, from (epoch second, visitor, item) of every view."""
    seconds, visitors, items = zip(*views, strict=True)
    with duckdb.connect() as database:
        database.register("made", pa.table({"second": seconds, "visitor": visitors, "item": items}))
        pairs = database.execute(_SQL, {"gap": int(gap.total_seconds()), "most": MOST_ITEMS}).fetchall()
    return {(item, also): sessions for item, also, sessions in pairs}


def differences(actual: Pairs, expected: Pairs) -> list[str]:
    """One line per pair whose count differs."""
    return [
        f"{item} with {also}: found {actual.get((item, also), 0)}, recounted {expected.get((item, also), 0)}"
        for item, also in sorted(actual.keys() | expected.keys())
        if actual.get((item, also), 0) != expected.get((item, also), 0)
    ]
