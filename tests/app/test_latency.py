"""Latencies from buckets, compared with the durations themselves."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.app import lakehouse
from tests.app.recounted import Hours, Scene, inside, select
from tidemark.figures import (
    latency,
    quantiles,
)
from tidemark.figures.quantiles import bounds
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection


def nearest_rank(durations: pd.Series, percent: int) -> float:
    """The quantile of the durations themselves, in seconds."""
    ordered = sorted(durations)
    return ordered[math.ceil(percent * len(ordered) / 100) - 1] / 1e6


@pytest.mark.parametrize("filters", [(), ("bot_kind=",), ("bot_kind!=",), ("path^/a",)])
@pytest.mark.parametrize("hours", [None, (5, 50), (5.001, 50.3)])
def test_latency(scene: Scene, filters: tuple[str, ...], hours: Hours) -> None:
    rows, lines = scene
    selection = select(*filters, hours=hours)
    kept = inside(lines, selection, *filters)["duration_us"].dropna()

    result = latency.latency(rows, selection)
    again = latency.latency(rows, replace(selection, recount=True))

    assert result == again
    assert result.timed == len(kept)
    for percent in (50, 95, 99):
        wanted = nearest_rank(kept, percent)
        assert getattr(result, f"p{percent}") == pytest.approx(wanted, rel=0.0101, abs=1e-6)


def test_quantiles_take_the_nearest_rank() -> None:
    counts = pd.DataFrame({"bucket": [3, 7, 9], "requests": [1, 18, 1]})
    gamma = 1.01 / 0.99

    result = quantiles.summary(counts, quantiles.FINE)

    assert result.timed == 20
    # Of 20 values the median is the 10th, p95 the 19th (exactly 0.95 · 20), p99 the 20th.
    assert result.p50 == result.p95 == pytest.approx(2 * gamma**7 / (gamma + 1) / 1e6)
    assert result.p99 == pytest.approx(2 * gamma**9 / (gamma + 1) / 1e6)
    assert quantiles.summary(counts.head(0), quantiles.FINE) == quantiles.Latency(0, None, None, None)


def test_apdex_counts_tolerated_requests_half() -> None:
    buckets = [quantiles.bucket(t, quantiles.FINE) for t in (0.3, 0.5, 1.9, 2.1)]
    counts = pd.DataFrame({"bucket": buckets, "requests": [4, 2, 2, 2]})

    assert quantiles.apdex(counts, 0.5, quantiles.FINE) == pytest.approx((6 + 2 / 2) / 10)
    assert quantiles.apdex(counts.head(0), 0.5, quantiles.FINE) is None


def test_latency_over_time_and_its_heat_map_count_every_timed_request(scene: Scene) -> None:
    rows, lines = scene
    selection = select(hours=None)
    timed = lines.dropna(subset="duration_us")

    by_time = latency.over_time(rows, selection, 6 * 3600)
    heat = latency.heat(rows, selection, 6 * 3600)

    wanted = timed.groupby(timed["event_time"].dt.floor("6h")).size()
    assert by_time.set_index("bin")["timed"].to_dict() == wanted.to_dict()
    assert heat.groupby("bin")["requests"].sum().to_dict() == wanted.to_dict()
    low, high = heat["low"].to_numpy(), heat["high"].to_numpy()
    for each, wide in timed.groupby(timed["event_time"].dt.floor("6h")):
        chosen = heat["bin"] == each
        within = [
            ((d > low * 1e6) | (low == 0)) & (d <= high * 1e6 * 1.000001) & chosen
            for d in wide["duration_us"]
        ]
        assert (sum(w.astype(int) for w in within)[chosen] == heat["requests"][chosen]).all()


@pytest.mark.parametrize("filters", [(), ("country=DE",)])
def test_slowest_pages(scene: Scene, filters: tuple[str, ...]) -> None:
    """By silver a bucket is computed with logarithms; it is that of the integer bounds, or gold would differ."""
    rows, lines = scene
    selection = select(*filters, hours=(5, 50))
    kept = inside(lines, selection, *filters)
    kept = kept[~kept["bot"] & ~kept["asset"] & (kept["status"] < 400)].dropna(subset="duration_us")

    result = latency.slowest_pages(rows, selection)

    pd.testing.assert_frame_equal(result, latency.slowest_pages(rows, replace(selection, recount=True)))
    wanted = kept["duration_us"].groupby(kept["path"].fillna(""))
    assert result.set_index("path")["timed"].to_dict() == wanted.size().to_dict()
    for row in result.itertuples():
        assert row.p95 == pytest.approx(nearest_rank(wanted.get_group(row.path), 95), rel=0.0501, abs=1e-6)
    assert list(result["p95"]) == sorted(result["p95"], reverse=True)


@pytest.mark.parametrize("filters", [(), ("country=DE",)])
def test_hours_in_which_a_page_was_slower_than_in_its_others(scene: Scene, filters: tuple[str, ...]) -> None:
    rows, lines = scene
    selection = select(*filters, hours=(5, 50))
    kept = inside(lines, selection, *filters)
    kept = kept[~kept["bot"] & ~kept["asset"] & (kept["status"] < 400)].dropna(subset="duration_us")

    result = latency.slow_hours(rows, selection, least=2)

    again = latency.slow_hours(rows, replace(selection, recount=True), least=2)
    pd.testing.assert_frame_equal(result, again, check_dtype=False)
    assert len(result)
    hours = kept["event_time"].dt.floor("h").nunique()
    for row in result.itertuples():
        page = kept[kept["path"].fillna("") == row.path]
        assert row.width == next(w for w in (1, 2, 3, 4, 6, 12, 24) if len(page) / hours * w >= 2)
        windows = page.groupby(page["event_time"].dt.floor(f"{row.width}h"))["duration_us"]
        of_page = {start: times for start, times in windows if len(times) > 1}
        p95s = {start: nearest_rank(times, 95) for start, times in of_page.items()}
        assert row.timed == len(of_page[row.bin])
        assert row.p95 == pytest.approx(p95s[row.bin], rel=0.0501, abs=1e-6)
        assert row.usual == pytest.approx(float(np.median(list(p95s.values()))), rel=0.0501, abs=1e-6)
        assert row.times == row.p95 / row.usual >= 2
        assert row.hours in range(row.width, row.width * len(p95s), row.width)


def test_every_duration_has_the_same_bucket_by_logarithm_and_by_whole_bounds(tmp_path: Path) -> None:
    edges = [int(e) + more for e in bounds(0.05)[:260] for more in (0, 1)]
    lines = [
        lakehouse.requests(visitors=1, bots=0)[0]
        | {"duration_us": each, "status": 200, "asset": False, "path": "/", "bot": False, "offset": i}
        for i, each in enumerate([0, *edges])
    ]
    lakehouse.build(tmp_path, lines)
    rows = Rows(DeltaReader(tmp_path))

    result = latency.page_counts(rows, Selection(recount=True))

    wanted = latency.page_counts(rows, Selection())
    pd.testing.assert_frame_equal(result.sort_values("bucket", ignore_index=True), wanted, check_dtype=False)
