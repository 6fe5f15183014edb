"""Generated traffic, late and malformed lines included, gives exactly the tables that its truth demands."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.compare import RECOUNTED, assert_table
from tests.pipeline.harness import fresh, produce, rows, run_here
from tests.pipeline.recount import recount
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks
from tidemark.traffic.truth import Truth

START = 1_780_000_200  # a Thursday in May 2026


# Malformed lines are not recomputed; their number and reasons are those of the truth.
RECOMPUTED = sorted(RECOUNTED.keys() - {"bronze.access_log", "silver.rejected"})


@pytest.mark.check
def test_traffic_with_a_tenth_late_and_a_hundredth_malformed(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path, batch_lines=7_000)
    truth, pairs, good = Truth(), [], []
    for site, seed in (("default", 7), ("shop", 8)):
        traffic = Traffic(start=START, rate=8, seconds=3_000, seed=seed, site=site, visitors=900,
                          late=0.1, late_by=1_800, malformed=0.01, request_time=site == "shop")  # fmt: skip
        for block in blocks(traffic, truth=True):
            pairs += [(site, line) for line in block.lines]
            accepted = zip(block.lines, block.outcomes, strict=True)
            good += [(site, line) for line, outcome in accepted if outcome.reason is None]
            truth.extend(site, block.outcomes)
    produce(settings, pairs)
    run_here(spark, settings)

    counts = ["visitors", "pageviews", "requests", "bot_requests"]
    result = rows(settings, "gold.visitors_by_country", ["site", "window_start", "country", *counts])
    expected = [
        (w.site, w.window_start, w.country, w.visitors, w.pageviews, w.requests, w.bot_requests)
        for w in truth.windows()
    ]
    assert sorted(result) == sorted(expected)

    columns = ["site", "country", "start_time", "end_time", "pageviews", "entry_page", "exit_page"]
    sessions = rows(settings, "silver.sessions", columns)
    assert Counter(sessions) == Counter(
        (s.site, s.country, s.start, s.end, s.pageviews, s.entry, s.exit) for s in truth.sessions()
    )

    reasons = Counter(
        reason for (names,) in rows(settings, "silver.rejected", ["reasons"]) for reason in names
    )
    assert reasons == truth.rejected
    assert truth.rejected.total() > 200
    recomputed = recount(good)
    assert recomputed.accepted == truth.accepted
    for table in RECOMPUTED:
        assert_table(table, partial(rows, settings), recomputed)
