"""The order of arrival, how lines fall into batches, and restarts leave no trace in any table."""

from __future__ import annotations

import functools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, deliver, fresh, rows, run_here
from tests.pipeline.recount import Delivery, Expected, recount
from tidemark.importing.importer import Options, import_files
from tidemark.pipeline import LAYER_TABLES, Pipeline
from tidemark.settings import Settings
from tidemark.stream import lock
from tidemark.stream.run import run
from tidemark.traffic.stream import Traffic, blocks

START = 1_780_000_200
DAY = 86_400
# What tells of arrival rather than of the line.
ARRIVAL = {"topic", "partition", "offset", "kafka_timestamp", "ingested_at", "rejected_at", "updated_at"}
Line = tuple[str, bytes]


def lines(seed: int, seconds: int = 4_000, start: int = START, site: str = "shop") -> list[Line]:
    traffic = Traffic(
        start=start, rate=0.1, seconds=seconds, seed=seed, site=site, visitors=60, request_time=True
    )
    return [(site, line) for block in blocks(traffic) for line in block.lines]


@functools.cache
def day() -> Sequence[Line]:
    """Ten servers' logs of one site, another site, the same one day before, and lines that are none."""
    servers = [line for server in range(10) for line in lines(server, seconds=500)]
    return (
        *servers,
        *lines(20, site="default"),
        *day_before(),
        ("shop", b"no log line"),
        ("shop", b""),
    )


@functools.cache
def day_before() -> Sequence[Line]:
    return tuple(lines(21, start=START - DAY))


@dataclass(frozen=True)
class Arrival:
    """Lines in order of arrival, in parts between which the pipeline is started anew; which partition each
    goes to, and the most lines of a batch."""

    parts: Sequence[Sequence[Line]]
    partition: Callable[[int], int]
    batch_lines: int


def shuffled(seed: int) -> Arrival:
    chance = random.Random(seed)
    pairs = list(day())
    chance.shuffle(pairs)
    bounds = [0, *sorted(chance.sample(range(1, len(pairs)), 2)), len(pairs)]
    parts = [pairs[start:end] for start, end in pairwise(bounds)]
    return Arrival(parts, lambda number: chance.randrange(2), chance.choice([150, 400, 10_000]))


def newest_first() -> Arrival:
    pairs = day()
    return Arrival([pairs[::-1]], lambda number: number % 2, 300)


def servers_interleaved() -> Arrival:
    """One line of each server in turn, as a load balancer's servers ship them; all but silent in one partition."""
    pairs = day()
    turns = sorted(range(len(pairs)), key=lambda at: (at % 50, at // 50))
    return Arrival([[pairs[at] for at in turns]], lambda number: int(number == 0), 350)


def yesterday_after_today() -> Arrival:
    pairs = day()
    old = set(day_before())
    return Arrival(
        [[p for p in pairs if p not in old], [p for p in pairs if p in old]], lambda number: 0, 10_000
    )


def contents(settings: Settings) -> dict[str, Counter[str]]:
    """All rows of every layer's table without what tells of arrival; a sketch by what it counts, which is
    beside it."""
    actual = {}
    for table in LAYER_TABLES:
        kept = [c.name for c in table.columns if c.name not in ARRIVAL and not c.name.endswith("_sketch")]
        data = DeltaTable(settings.tables / table.name.replace(".", "/")).to_pyarrow_table(columns=kept)
        actual[table.name] = Counter(map(repr, data.to_pylist()))
    return actual


def take(settings: Settings, spark: SparkSession, arrival: Arrival) -> None:
    number = 0
    for part in arrival.parts:
        sent = []
        for site, line in part:
            sent.append(Delivery(site, line, None, arrival.partition(number), START + DAY))
            number += 1
        deliver(settings, sent)
        run_here(spark, settings)


@pytest.fixture(scope="module")
def expected() -> Expected:
    return recount(day())


@pytest.fixture(scope="module")
def in_order(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Counter[str]]:
    """The tables when the lines come file by file, in one batch."""
    settings = fresh(broker, tmp_path_factory.mktemp("order"), visitor_key="order")
    take(settings, spark, Arrival([day()], lambda number: 0, 10_000))
    return contents(settings)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: shuffled(1), id="shuffled-1"),
        pytest.param(lambda: shuffled(2), id="shuffled-2", marks=pytest.mark.soak),
        pytest.param(newest_first, id="newest-first"),
        pytest.param(servers_interleaved, id="servers-interleaved"),
        pytest.param(yesterday_after_today, id="yesterday-after-today"),
    ],
)
def test_any_order_gives_the_same_tables(
    broker: Settings, spark: SparkSession, tmp_path: Path, in_order: dict[str, Counter[str]], expected: Expected,
    make: Callable[[], Arrival],
) -> None:  # fmt: skip
    arrival = make()
    settings = fresh(broker, tmp_path, visitor_key="order", batch_lines=arrival.batch_lines)
    take(settings, spark, arrival)
    assert contents(settings) == in_order
    assert_equal(settings, expected)


def test_logs_of_other_days_are_imported_in_any_order(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    """Today's log, last month's, and yesterday's, whose lines are in no order, in two files."""
    settings = fresh(broker, tmp_path, visitor_key="order")
    today, month, yesterday = (lines(30 + ago, start=START - ago * DAY) for ago in (0, 30, 1))
    random.Random(1).shuffle(yesterday)
    half = len(yesterday) // 2
    for number, part in enumerate((today, month, yesterday[:half], yesterday[half:])):
        log = tmp_path / f"{number}.log"
        log.write_bytes(b"".join(line + b"\n" for _, line in part))
        import_files([str(log)], Options(settings.kafka, site="shop", say=lambda text: None))
        run_here(spark, settings)
    assert_equal(settings, recount([*today, *month, *yesterday]))


def view(site: str, visitor: int, second: int) -> Delivery:
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(second))
    line = f'10.0.0.{visitor} - - [{stamp}] "GET /{visitor} HTTP/1.1" 200 9 "-" "Mozilla/5.0 (X11) Firefox/140.0"'
    return Delivery(site, line.encode(), None, 0, second)


def test_a_silent_site_and_a_silent_partition_hold_up_nothing(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    # After its first line nothing comes from `quiet`, and nothing ever in the other partition.
    sent = [view("quiet", 1, START), view("busy", 1, START), view("busy", 2, START + 1_801)]
    deliver(settings, sent)
    run_here(spark, settings)
    closed = set(rows(settings, "silver.sessions", ["site", "entry_page", "closed"]))
    assert closed == {("quiet", "/1", False), ("busy", "/1", True), ("busy", "/2", False)}
    sent += [view("busy", 3, START + 9_000)]
    deliver(settings, sent[-1:])
    run_here(spark, settings)
    assert_equal(settings, recount((each.site, each.line) for each in sent))
    assert ("busy", "/2", True) in rows(settings, "silver.sessions", ["site", "entry_page", "closed"])


def test_when_traffic_stops_all_that_came_is_counted_and_closed_within_seconds(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    """No later line, and no watermark, is waited for: the last line's effects show by themselves."""
    settings = fresh(broker, tmp_path)
    pipeline = Pipeline.of(settings).on(spark)
    sent = [view("shop", 1, START), view("shop", 2, START + 60)]

    def watch(stopping: threading.Event) -> None:
        seen.append(await_rows(settings, {("/1", False), ("/2", False)}))
        sent.append(view("shop", 3, START + 1_900))  # the last line for ever
        deliver(settings, sent[-1:])
        seen.append(await_rows(settings, {("/1", True), ("/2", True), ("/3", False)}))
        stopping.set()

    seen: list[bool] = []
    deliver(settings, sent)
    with lock.only_one(settings):
        run(pipeline, pipeline.flows, once=False, beside=[watch])
    assert seen == [True, True]
    assert_equal(settings, recount((each.site, each.line) for each in sent))


def await_rows(settings: Settings, wanted: set[tuple[str, bool]], patience: float = 60.0) -> bool:
    """Whether the sessions are those (entry page, closed) before patience runs out."""
    deadline = time.monotonic() + patience
    while set(rows(settings, "silver.sessions", ["entry_page", "closed"])) != wanted:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
