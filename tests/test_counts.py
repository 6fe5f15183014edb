"""Counts made by Spark and here are the same rows."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from gold import pages, traffic, visitors_by_country
from silver import requests
from tidemark.counts import WindowedCounts
from tidemark.sketches import count, unite

COLUMNS = ("site", "event_time", "country", "path", "status", "bytes", "bot", "pageview", "visitor_id")
ALL = [visitors_by_country.COUNTS, traffic.COUNTS, pages.COUNTS]


def some_requests(seed: int, number: int) -> pa.Table:
    """Rows around the epoch and today, on the very edges of windows, too."""
    chance = random.Random(seed)
    starts = [datetime(1969, 12, 31, 23, 58, tzinfo=UTC), datetime(2026, 3, 29, 0, 59, tzinfo=UTC)]
    rows = []
    for _ in range(number):
        bot = chance.random() < 0.2
        offset = chance.choice(
            [timedelta(seconds=60 * chance.randrange(9)), timedelta(microseconds=chance.randrange(10**9))]
        )
        rows.append(
            {
                "site": chance.choice(["default", "shop", "läden"]),
                "event_time": chance.choice(starts) + offset,
                "country": chance.choice(["FR", "DE", "ZZ"]),
                "path": chance.choice(["/", "/ä b", "/%00", ""]),
                "status": chance.choice([100, 199, 200, 299, 304, 404, 499, 500, 599]),
                "bytes": chance.choice([0, 17, 2**40]),
                "bot": bot,
                "pageview": not bot and chance.random() < 0.5,
                "visitor_id": f"{chance.randrange(40):032x}",
            }
        )
    schema = pa.schema([requests.TABLE.arrow_schema.field(name) for name in COLUMNS])
    return pa.Table.from_pylist(rows, schema)


def by_key(counts: WindowedCounts, made: pa.Table) -> dict[tuple[object, ...], dict[str, object]]:
    found = {tuple(row[name] for name in counts.key): row for row in made.to_pylist()}
    assert len(found) == made.num_rows
    return found


@pytest.mark.parametrize("counts", ALL, ids=["visitors_by_country", "traffic", "pages"])
@pytest.mark.parametrize("number", [0, 1, 3000])
def test_spark_and_here_are_the_same(counts: WindowedCounts, number: int, spark: SparkSession) -> None:
    table = some_requests(7, number)
    here = counts.here(table)
    by_spark = counts.by_spark(spark.createDataFrame(table)).toArrow()
    assert set(here.column_names) == set(by_spark.column_names)
    for name in here.column_names:
        assert here.schema.field(name).type == by_spark.schema.field(name).type, name
    one, other = by_key(counts, here), by_key(counts, by_spark)
    assert one.keys() == other.keys() and (number < 3000 or len(one) > 20)
    for key, row in one.items():
        sketches = [row.pop("visitors_sketch"), other[key].pop("visitors_sketch")]
        assert row == other[key]
        assert count(unite(sketches)) == row["visitors"]  # the very same visitors


@pytest.mark.parametrize("counts", ALL, ids=["visitors_by_country", "traffic", "pages"])
def test_pieces_add_up_to_the_whole(counts: WindowedCounts) -> None:
    table = some_requests(8, 2000)
    names = [*counts.key, "window_end", *counts.sums, "visitors", "visitors_sketch"]
    found = counts.here(table.slice(0, 0)).select(names)
    kept: dict[tuple[object, ...], dict[str, object]] = {}
    for start in range(0, 2000, 130):
        existing = pa.Table.from_pylist(list(kept.values()), found.schema)
        change = counts.combine(existing, counts.here(table.slice(start, 130)))
        kept |= by_key(counts, change.rows.select(names))
    whole = by_key(counts, counts.here(table))
    for row in (*kept.values(), *whole.values()):
        row.pop("visitors_sketch")
    assert kept == whole
