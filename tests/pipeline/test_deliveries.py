"""A line that a shipper delivers again is counted as a duplicate and enters no table."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, deliver, fresh, rows, run_here
from tests.pipeline.recount import Delivery, delivered_once, recount
from tidemark.errors import TidemarkError
from tidemark.settings import Settings
from tidemark.store import sizes
from tidemark.stream import accounting, commits, query
from tidemark.traffic.stream import Traffic, blocks

NOW = 1_780_010_000
DAY = 86_400
GOOD = b'203.0.113.7 - - [01/May/2026:20:50:00 +0000] "GET /a HTTP/1.1" 200 12 "-" "Mozilla/5.0 (X11) Firefox/140.0"'


def delivered_badly(seed: int, lines: int) -> list[Delivery]:
    """Traffic of two sites as a shipper delivers it whose acknowledgements get lost now and then. Both sites
    use the same ids; a third of the lines has none."""
    chance = random.Random(seed)
    sent: list[Delivery] = []
    known: Counter[str] = Counter()
    traffic = Traffic(
        start=NOW, rate=10, seconds=lines // 10, seed=seed, visitors=200, late=0.1, malformed=0.0
    )
    for number, line in enumerate(line for block in blocks(traffic) for line in block.lines):
        site = chance.choice(["default", "shop"])
        if number % 50 == 0:
            line = b"no log line"
        known[site] += 1
        name = None if number % 3 == 0 else f"line-{known[site]}"
        sent.append(Delivery(site, line, name, chance.randrange(2), NOW + number // 10))
        while chance.random() < 0.15:  # a retry of a line sent a while ago, perhaps to another partition
            again = sent[-1 - chance.randrange(min(len(sent), 700))]
            if again.id:
                sent.append(
                    Delivery(again.site, again.line, again.id, chance.randrange(2), again.seconds + 1)
                )
    return sent


def batches(sent: list[Delivery], ends: list[int]) -> list[list[Delivery]]:
    return [sent[start:end] for start, end in zip([0, *ends], [*ends, len(sent)], strict=True)]


@pytest.mark.parametrize("small", [50_000, 0], ids=["local", "executors"])
def test_lines_delivered_again_enter_no_table(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    if not small:  # executors read earlier ids, too
        monkeypatch.setattr(sizes, "FEW_ROWS", -1)
    settings = fresh(broker, tmp_path, batch_lines=1_200, local_rows=small)
    sent = delivered_badly(seed=5, lines=2_000)
    pairs, duplicate = delivered_once(sent)
    assert duplicate > 100
    for part in batches(sent, [1_400]):
        deliver(settings, part)
        run_here(spark, settings)
    assert_equal(settings, recount(pairs), duplicate)


@pytest.mark.parametrize(
    ("point", "passes"),
    [
        pytest.param("requests:between-tables", 1, marks=pytest.mark.soak),
        ("requests:between-tables", 3),
        ("requests:before-checkpoint", 1),
    ],
)
def test_a_batch_that_is_run_again_does_not_take_its_own_ids_for_seen(
    broker: Settings, spark: SparkSession, tmp_path: Path, point: str, passes: int
) -> None:
    settings = fresh(broker, tmp_path)
    sent = delivered_badly(seed=6, lines=600)
    settings.logs.mkdir(parents=True)
    deliver(settings, sent[:200])
    run_here(spark, settings)
    deliver(settings, sent[200:])
    left = [passes]

    def fail(name: str) -> None:
        if name == point:
            left[0] -= 1
            if left[0] == 0:
                raise RuntimeError("stopped here")

    with pytest.MonkeyPatch.context() as patch:
        for module in (commits, accounting, query):
            patch.setattr(module, "crash_point", fail)
        with pytest.raises(TidemarkError):
            run_here(spark, settings)
    run_here(spark, settings)
    pairs, duplicate = delivered_once(sent)
    assert_equal(settings, recount(pairs), duplicate)


def test_an_id_is_remembered_for_seven_days_of_kafka_time_in_any_order(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    at = {"old": -8 * DAY, "first": 0, "again": 6 * DAY, "earlier": -6 * DAY, "later": 7 * DAY}
    for names in (["old", "first"], ["again", "earlier", "later"]):
        deliver(settings, [Delivery("default", GOOD, "x", 0, NOW + at[name]) for name in names])
        run_here(spark, settings)
    taken = sorted(int(row[0]) - NOW for row in rows(settings, "bronze.access_log", ["kafka_timestamp"]))  # type: ignore[call-overload]
    assert taken == [at["old"], at["first"], at["later"]]
    # `earlier` is within seven days of both `old` and `first`, `again` of `first`.
    assert sum(row[0] for row in rows(settings, "quality.accounts", ["duplicate"])) == 2  # type: ignore[misc]


def test_a_rejected_line_has_not_been_accepted(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    settings = fresh(broker, tmp_path)
    bad = Delivery("default", b"no log line", "x", 0, NOW)
    good = Delivery("default", GOOD, "x", 1, NOW)
    sent = [
        bad,
        bad,
        good,
        good,
        bad,
        Delivery("other", GOOD, "x", 1, NOW),
        Delivery("default", GOOD, "", 1, NOW),
    ]
    for part in batches(sent, [2]):
        deliver(settings, part)
        run_here(spark, settings)
    pairs, duplicate = delivered_once(sent)
    assert duplicate == 1
    assert_equal(settings, recount(pairs), duplicate)
