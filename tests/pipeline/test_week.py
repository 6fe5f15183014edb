"""The demo's week and the live lines after it give exactly the tables that their truth demands."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from tests.pipeline.harness import fresh, produce, rows, run_here
from tidemark.cli.week import load_week
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks
from tidemark.traffic.truth import Truth


def test_a_week_loaded_before_live_traffic(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    settings = fresh(broker, tmp_path, batch_lines=4_000)
    truth = Truth()
    week = load_week(settings.kafka, lines=10_000, taken=partial(truth.extend, "default"))
    assert week is not None
    run_here(spark, settings)
    # The partitions are read evenly, so that only a few lines at the edges of batches are behind newer ones.
    assert sum(late for (late,) in rows(settings, "quality.accounts", ["late"])) < 20

    live = list(blocks(Traffic(start=week.end, rate=5, seconds=120, visitors=500)))
    for block in live:
        truth.extend("default", block.outcomes)
    produce(settings, [("default", line) for block in live for line in block.lines])
    run_here(spark, settings)

    counts = ["visitors", "pageviews", "requests", "bot_requests"]
    result = rows(settings, "gold.visitors_by_country", ["window_start", "country", *counts])
    assert sorted(result) == [
        (w.window_start, w.country, w.visitors, w.pageviews, w.requests, w.bot_requests)
        for w in truth.windows()
    ]
    columns = ["country", "start_time", "end_time", "pageviews", "entry_page", "exit_page"]
    assert Counter(rows(settings, "silver.sessions", columns)) == Counter(
        (s.country, s.start, s.end, s.pageviews, s.entry, s.exit) for s in truth.sessions()
    )
    minutes = rows(settings, "gold.traffic", ["window_start", "requests", "status_5xx"])
    outage = [result for result in minutes if result[0] in week.outage and result[0] + 60 in week.outage]
    # All but what is no HTTP.
    assert sum(bad for _, _, bad in outage) > 0.5 * sum(total for _, total, _ in outage)
