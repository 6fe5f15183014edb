from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.store import Commit
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream.accounting import Account, Ledger

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
_TIME = pa.timestamp("us", "UTC")
VALIDATED = pa.schema(
    [("site", pa.string()), ("event_time", _TIME), ("kafka_timestamp", _TIME), ("accepted", pa.bool_())]
)
Line = tuple[str, int | None]  # site, seconds after noon; None for a rejected line


@pytest.fixture
def store(tmp_path: Path) -> DeltaRsStore:
    delta_store = DeltaRsStore(Lakehouse(checkpoint_root="", root=str(tmp_path / "tables")))
    for table in (ACCOUNTS, SITES):
        delta_store.ensure(table)
    return delta_store


def count(ledger: Ledger, *lines: Line) -> Account:
    """Counts validated lines in two parts."""
    rows = [
        {
            "site": site,
            "event_time": None if at is None else NOON + timedelta(seconds=at),
            "kafka_timestamp": NOON,
            "accepted": at is not None,
        }
        for site, at in lines
    ]
    validated = pa.Table.from_pylist(rows, VALIDATED)
    counts = ledger.counts
    parts = [counts.partial(validated.slice(0, 2)), counts.partial(validated.slice(2))]
    return Account.of(counts.merge(pa.concat_tables(parts)))


def sites(store: DeltaRsStore) -> dict[str, dict[str, Any]]:
    rows = store.read(SITES).to_pylist()
    assert len({row["site"] for row in rows}) == len(rows), "one row per site"
    return {row["site"]: row for row in rows}


def test_batches_are_counted_by_site_and_in_all(store: DeltaRsStore) -> None:
    ledger = Ledger(store, "requests", late_seconds=300)
    first = count(ledger, ("a", 0), ("a", -9000), ("a", None), ("b", 50))
    assert (first.received, first.total("accepted"), first.total("rejected"), first.total("late")) == (
        4,
        3,
        1,
        0,
    )
    ledger.commit(first, NOON, Commit("requests/1", 0))
    assert ledger.newest == {"a": NOON, "b": NOON + timedelta(seconds=50)}

    # Behind the newest of earlier batches, each site by its own; at the limit is not late yet.
    second = count(ledger, ("a", -300), ("a", -301), ("a", 60), ("b", 49), ("c", -9999), ("c", None))
    assert {row["site"]: row["late"] for row in second.sites} == {"a": 1, "b": 0, "c": 0}
    ledger.commit(second, NOON, Commit("requests/1", 1))

    result = sites(store)
    assert {site: (r["accepted"], r["rejected"], r["late"]) for site, r in result.items()} == {
        "a": (5, 1, 1), "b": (2, 0, 0), "c": (1, 1, 0),
    }  # fmt: skip
    assert result["a"]["first_event_time"] == NOON - timedelta(seconds=9000)
    assert result["a"]["newest_event_time"] == NOON + timedelta(seconds=60)
    accounts = store.read(ACCOUNTS).sort_by("batch_id").to_pylist()
    assert [(r["received"], r["accepted"], r["rejected"], r["duplicate"], r["late"]) for r in accounts] == [
        (4, 3, 1, 0, 0),
        (6, 5, 1, 0, 1),
    ]


def test_lateness_is_a_histogram_with_inclusive_upper_bounds(store: DeltaRsStore) -> None:
    ledger = Ledger(store, "requests", late_seconds=300)
    ledger.commit(count(ledger, ("a", 0)), NOON, Commit("requests/1", 0))
    lags = (-5, 0, 1, 2, 10, 60, 61, 300, 1800, 10_800, 86_400, 86_401, 9_999_999)
    ledger.commit(
        count(ledger, *(("a", -lag) for lag in lags), ("a", None)),
        NOON,
        Commit("requests/1", 1),
    )
    [row] = sites(store).values()
    # The first line of a site has nothing to be behind.
    assert row["lateness"] == [1 + 3, 2, 1, 2, 1, 1, 1, 2]
    assert sum(row["lateness"]) == row["accepted"] == 1 + len(lags)


def test_a_batch_that_is_run_again_is_counted_once(store: DeltaRsStore) -> None:
    lines = [("a", 0), ("a", -600)]
    for _ in range(2):
        ledger = Ledger(store, "requests", late_seconds=300)
        ledger.commit(count(ledger, *lines), NOON, Commit("requests/1", 0))
    assert sites(store)["a"]["accepted"] == 2
    assert store.read(ACCOUNTS).num_rows == 1


def test_a_site_that_only_sends_garbage_has_no_clock(store: DeltaRsStore) -> None:
    ledger = Ledger(store, "requests", late_seconds=300)
    for number in range(2):
        ledger.commit(count(ledger, ("a", None)), NOON, Commit("requests/1", number))
    assert ledger.newest == {}
    assert (sites(store)["a"]["rejected"], sites(store)["a"]["newest_event_time"]) == (2, None)


def test_a_batch_of_nothing_is_counted(store: DeltaRsStore) -> None:
    ledger = Ledger(store, "requests", late_seconds=300)
    account = count(ledger)
    assert (account.received, account.newest("newest_event_time")) == (0, None)
    ledger.commit(account, NOON, Commit("requests/1", 0))
    assert store.read(ACCOUNTS).to_pylist()[0]["received"] == 0


def test_a_line_ahead_of_its_arrival_moves_the_clock_of_its_site_by_five_minutes(store: DeltaRsStore) -> None:
    ledger = Ledger(store, "requests", late_seconds=300)
    for number, lines in enumerate([[("a", 0), ("a", 7200)], [("a", 60), ("a", None)]]):
        ledger.commit(count(ledger, *lines), NOON, Commit("requests/1", number))
    row = sites(store)["a"]
    assert row["newest_event_time"] == NOON + timedelta(hours=2)
    assert row["reached_event_time"] == NOON + timedelta(minutes=5)
