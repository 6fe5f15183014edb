"""Which events count where, each sink on its own, and how the latency is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from examples.ad_campaigns.campaigns import ADS_PER_CAMPAIGN, CAMPAIGNS, ads
from examples.ad_campaigns.check import histogram, latencies, truth
from examples.ad_campaigns.generator import BEGIN_MS, LATE_MS, SKEW_MS, events
from examples.ad_campaigns.job import EVENTS, counted, viewed
from examples.ad_campaigns.server import VARIABLE, redis
from examples.ad_campaigns.sinks import COUNTS, Count, Sink, ToRedis, counts_in_delta, to_delta
from examples.kit.fetched import validate
from examples.kit.load import Load
from tests.examples.kit.records import fetched
from tidemark.contract.store import Commit
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore


def test_the_generator_keeps_the_benchmarks_proportions() -> None:
    campaigns = ads()
    assert len(campaigns) == CAMPAIGNS * ADS_PER_CAMPAIGN
    assert set(map(list(campaigns.values()).count, set(campaigns.values()))) == {ADS_PER_CAMPAIGN}
    sent = [e for e in events(Load(seed=1, rate=3_000, seconds=5, late=0.1)) if not e.reason]
    fields = [decoded(e.value) for e in sent]
    views = sum(f["event_type"] == "view" for f in fields)
    assert abs(views / len(fields) - 1 / 3) < 0.03
    off = [int(f["event_time"]) - BEGIN_MS - e.at * 1000 for e, f in zip(sent, fields, strict=True)]
    assert abs(sum(o < -SKEW_MS - 1 for o in off) / len(off) - 0.1) < 0.02
    assert max(off) <= SKEW_MS + 1 and min(off) >= -LATE_MS - 1
    assert [e.value for e in events(Load(seed=1, rate=10, seconds=2))] == [
        e.value for e in events(Load(seed=1, rate=10, seconds=2))
    ]


def decoded(value: bytes) -> dict[str, str]:
    result: dict[str, str] = json.loads(value)
    return result


def test_views_of_known_ads_are_counted_by_campaign_and_window(spark: SparkSession) -> None:
    sent = list(events(Load(seed=2, rate=500, seconds=4, late=0.2)))
    rows = counted(viewed(validate(fetched(EVENTS, [e.value for e in sent]), EVENTS, spark).good))
    actual = {
        (row["campaign"], round(row["window_start"].timestamp() * 1000)): row["views"]
        for row in rows.to_pylist()
    }
    assert actual == truth(sent)
    assert sum(actual.values()) > 500


@pytest.fixture(params=["delta", "redis"])
def sink(request: pytest.FixtureRequest, home: Settings) -> Iterator[tuple[Sink, Any]]:
    """A sink, and a function that reads back what it has."""
    if request.param == "redis":
        if shutil.which("redis-server") is None:
            pytest.skip("no redis-server")
        with redis() as address:
            assert address
            to_redis = ToRedis(address)
            yield to_redis, lambda: to_redis.counts({"a", "b"})
        return
    store = DeltaRsStore(lakehouse.of(home))
    store.ensure(COUNTS)
    yield to_delta, lambda: counts_in_delta(store.read(COUNTS))


def partial(*rows: tuple[str, int, int, int]) -> pa.Table:
    """Rows of campaign, window's start in ms, views and clock."""
    campaign, start, views, clock = (list(values) for values in zip(*rows, strict=True))
    return pa.table(
        {
            "campaign": campaign,
            "window_start": pa.array(start, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
            "views": pa.array(views, pa.int64()),
            "clock_ms": pa.array(clock, pa.int64()),
        }
    )


def test_a_sink_adds_up_batches_and_takes_each_once(sink: tuple[Sink, Any], home: Settings) -> None:
    write, read = sink
    store = DeltaRsStore(lakehouse.of(home))
    first = partial(("a", BEGIN_MS, 3, 70), ("b", BEGIN_MS, 1, 60), ("a", BEGIN_MS + 10_000, 2, 90))
    write(store, first, Commit("counts/1", 0))
    write(store, first, Commit("counts/1", 0))
    before = read()
    assert {key: (c.views, c.clock) for key, c in before.items()} == {
        ("a", BEGIN_MS): (3, 70), ("b", BEGIN_MS): (1, 60), ("a", BEGIN_MS + 10_000): (2, 90),
    }  # fmt: skip
    write(store, partial(("a", BEGIN_MS, 4, 50)), Commit("counts/1", 1))
    after = read()
    assert after["a", BEGIN_MS][0::2] == (7, 50)
    assert after["a", BEGIN_MS].updated >= before["a", BEGIN_MS].updated
    assert after["b", BEGIN_MS] == before["b", BEGIN_MS]
    # The checkpoint of another query counts from 0 again.
    write(store, partial(("b", BEGIN_MS, 1, 60)), Commit("counts/2", 0))
    assert read()["b", BEGIN_MS].views == 2


def test_a_redis_that_the_environment_names_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "redis://example.invalid")
    with redis() as address:
        assert address == "redis://example.invalid"
    monkeypatch.setenv(VARIABLE, "")
    with redis() as address:
        assert address is None


def test_the_latency_is_from_a_windows_end_to_its_last_update() -> None:
    size, clock = 10_000, 1_000_000
    counts = {
        ("a", 0): Count(5, clock + size + 300, clock),
        ("b", 0): Count(5, clock + size + 900, clock + 20),
        ("a", size): Count(1, clock + size + 500, clock),
    }
    assert list(latencies(counts).values()) == [300, 900]
    lines = list(histogram([*latencies(counts).values()]))
    assert lines[0].startswith("steady, latency of 2 windows: p50 600 ms")
    assert [line.split()[-2:] for line in lines if "#" in line] == [["1", "#" * 25], ["1", "#" * 25]]
    assert list(histogram([])) == []
