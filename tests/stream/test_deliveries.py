"""Accepted delivery ids are found again, whatever the sizes of batches, and nothing else is."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from pyspark.sql import SparkSession

from bronze.access_log import TABLE as LINES
from silver.rejected import TABLE as REJECTED
from tidemark.contract.store import Commit
from tidemark.engine.groups import anti_join
from tidemark.store import sizes
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import swap
from tidemark.stream.deliveries import Deliveries, DeliveryIds, Ids, _Day

DAY = 86_400_000_000
NOON = 1_780_000_000_000_000


def ids(*entries: tuple[int, int]) -> Ids:
    """(digest, microseconds) pairs; the upper half of the digest is its thousands."""
    rows = pa.table(
        {
            "_digest": pa.array(
                [(d // 1000).to_bytes(8, "little") + (d % 1000).to_bytes(8, "little") for d, _ in entries],
                pa.binary(),
            ),
            "_time": pa.array([moment for _, moment in entries], pa.int64()),
        }
    )
    return Ids.of(rows)


def remembered(seen: dict[int, _Day], batch: Ids) -> dict[int, _Day]:
    for day in range(min(batch.days) - 9, max(batch.days) + 10):
        seen.setdefault(day, _Day())
    for day in batch.days:
        seen[day].add(batch.take(np.flatnonzero(batch.day == day)))
    return seen


@pytest.mark.parametrize("seed", range(5))
def test_the_index_finds_what_a_search_through_all_entries_finds(seed: int) -> None:
    chance = random.Random(seed)
    seen: dict[int, _Day] = {}
    known: list[tuple[int, int]] = []
    for _ in range(30):
        # Few upper halves, so that different ids share them and runs must be searched on.
        batch = [(chance.randrange(12_000), NOON + chance.randrange(12 * DAY)) for _ in range(60)]
        remembered(seen, ids(*batch))
        known += batch
        looked_up = [(chance.randrange(12_000), NOON + chance.randrange(12 * DAY)) for _ in range(40)]
        result = remembered_within(seen, looked_up)
        assert result == [any(a == k and abs(t - m) < 7 * DAY for k, m in known) for a, t in looked_up]
    assert max(len(day.runs) for day in seen.values()) <= 8


def remembered_within(seen: dict[int, _Day], looked_up: list[tuple[int, int]]) -> list[bool]:
    batch = ids(*looked_up)
    for day in range(min(batch.days) - 9, max(batch.days) + 10):
        seen.setdefault(day, _Day())
    return batch.known(seen, 7).tolist()  # type: ignore[no-any-return]


def test_within_a_batch_the_first_is_kept_and_another_after_the_time_is_over() -> None:
    batch = ids(
        (5, NOON), (6, NOON), (5, NOON), (1005, NOON), (5, NOON + 6 * DAY), (5, NOON + 7 * DAY), (5, NOON + 8 * DAY)
    )  # fmt: skip
    assert batch.repeated(7).tolist() == [False, False, True, False, True, False, True]


def test_a_million_ids_are_remembered_and_found_quickly() -> None:
    chance = np.random.default_rng(1)
    halves = chance.integers(0, 1 << 63, (1_000_000, 2), dtype=np.uint64)
    day = _Day()
    moments = np.full(1_000_000, NOON)
    for start in range(0, 1_000_000, 1000):
        part = slice(start, start + 1000)
        high, low = np.ascontiguousarray(halves[part, 0]), np.ascontiguousarray(halves[part, 1])
        day.add(Ids(high, low, moments[part]))
    result = np.zeros(2000, dtype=bool)
    high, low = halves[::1000, 0].repeat(2), halves[::1000, 1].repeat(2)
    low[1::2] += 1  # another id with the same upper half
    for run in day.runs:
        result |= run.near(Ids(high, low, moments[:2000]), 7 * DAY)
    assert result.tolist() == [True, False] * 1000
    assert len(day.runs) <= 20
    assert sum(run.high.nbytes + run.low.nbytes + run.time.nbytes for run in day.runs) == 24_000_000


@dataclass
class Home:
    """Bronze and quarantine as the flow keeps them, without the flow."""

    spark: SparkSession
    lakehouse: Lakehouse
    store: DeltaRsStore
    offset: int = 0
    batches: int = 0
    taken: list[int] = field(default_factory=list)

    @classmethod
    def at(cls, spark: SparkSession, path: Path) -> Home:
        lakehouse = Lakehouse(checkpoint_root="", root=str(path))
        home = cls(spark, lakehouse, DeltaRsStore(lakehouse))
        for table in (LINES, REJECTED):
            home.store.ensure(table)
        return home

    def start(self) -> Deliveries:
        return Deliveries(self.store, self.lakehouse, LINES, REJECTED, days=7)

    def validated(self, *lines: tuple[str, str | None, float, bool]) -> pa.Table:
        """(site, id, days after noon, accepted) as validated lines; the offset goes on by one for each."""
        first, self.offset = self.offset, self.offset + len(lines)
        moments = [datetime.fromtimestamp((NOON + days * DAY) / 1e6, UTC) for _, _, days, _ in lines]
        return pa.table(
            {
                "topic": ["log"] * len(lines),
                "partition": pa.array([0] * len(lines), pa.int32()),
                "offset": pa.array(range(first, self.offset), pa.int64()),
                "site": [site for site, _, _, _ in lines],
                "id": pa.array([name for _, name, _, _ in lines], pa.string()),
                "kafka_timestamp": pa.array(moments, pa.timestamp("us", "UTC")),
                "accepted": [good for _, _, _, good in lines],
            }
        )

    def repeated(self, deliveries: Deliveries, batch: pa.Table) -> pa.Table | None:
        named = DeliveryIds().partial(batch.filter(batch["accepted"]).select(list(DeliveryIds.needs)))
        return deliveries.repeated(named, self.spark)

    def take(self, deliveries: Deliveries, batch: pa.Table) -> list[int]:
        """Offsets of the batch that are left out; all others enter the tables."""
        again = self.repeated(deliveries, batch)
        kept = anti_join(batch, again, again.column_names) if again else batch
        self.batches += 1
        for table, rows in ((LINES, kept), (REJECTED, kept.filter(pc.invert(kept["accepted"])))):
            lacking = {f.name: pa.nulls(rows.num_rows, f.type) for f in table.arrow_schema}
            columns = lacking | {name: rows[name] for name in rows.column_names if name in lacking}
            self.store.append_arrow(table, pa.table(columns), Commit("flow", self.batches))
        self.taken += kept["offset"].to_pylist()
        return sorted(again["offset"].to_pylist()) if again else []


@pytest.fixture(params=["in this process", "by executors"])
def home(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Home:
    """Without earlier lines, which are read in one way or the other."""
    if request.param == "by executors":
        monkeypatch.setattr(sizes, "FEW_ROWS", -1)
    return Home.at(spark, tmp_path)


def test_ids_are_found_again_after_a_restart_in_any_order(home: Home) -> None:
    result = [
        home.take(home.start(), home.validated(*(("a", "x", day, True) for day in days)))
        for days in ((-8, 0), (6, -6), (7,), (7.5, 14))
    ]
    assert result == [[], [2, 3], [], [5]]


def test_ids_are_found_again_within_one_process(home: Home) -> None:
    deliveries = home.start()
    assert home.repeated(deliveries, home.validated(("a", None, 0, True), ("a", "", 0, True))) is None
    batch = home.validated(
        ("a", "x", 0, True), ("b", "x", 0, True), ("a", "x", 0.1, True), ("a", "y", 0, False), ("a", None, 0, True)
    )  # fmt: skip
    assert home.take(deliveries, batch) == [4]
    # A rejected line was not accepted; a later one of its id is, and from then on it is known.
    assert home.take(
        deliveries, home.validated(("a", "y", 0, True), ("a", "x", 1, True), ("b", "x", 1, True))
    ) == [8, 9]
    assert home.take(deliveries, home.validated(("a", "y", 0, False), ("a", "y", 0, True))) == [11]
    assert home.take(home.start(), home.validated(("a", "y", 0, True), ("b", "y", 0, True))) == [12]


def test_a_batch_in_bronze_already_does_not_repeat_itself(home: Home) -> None:
    home.take(home.start(), home.validated(("a", "x", 0, True)))
    batch = home.validated(("a", "x", 0, True), ("a", "y", 0, True), ("a", "y", 0, True))
    again = home.take(home.start(), batch)
    assert again == [1, 3]
    second = home.repeated(home.start(), batch)
    assert second is not None and second["offset"].to_pylist() == again


def test_what_a_rebuild_accepted_counts_as_accepted(home: Home) -> None:
    deliveries = home.start()
    home.take(deliveries, home.validated(("a", "x", 0, True), ("a", "y", 0, False)))
    # As a rebuild leaves it: the line is rejected no more.
    DeltaTable(home.lakehouse.path(REJECTED)).delete(
        commit_properties=CommitProperties(app_transactions=[Transaction(swap.WRITER, 1)])
    )
    assert home.take(deliveries, home.validated(("a", "y", 0, True), ("a", "z", 0, True))) == [2]
