"""Partial rows are appended to a table where it has none of their keys; otherwise they replace files."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from gold import traffic
from silver import requests
from tidemark.contract.store import Commit
from tidemark.settings import Settings
from tidemark.store import deltalog, lakehouse
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream.merge import merge_into

TRAFFIC, COUNTS = traffic.TABLE, traffic.COUNTS
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 3, 1, 13, tzinfo=UTC)


def partials(*times: datetime) -> pa.Table:
    """The partial rows of a request at each of the times."""
    lines = [{"site": "shop", "event_time": time, "visitor_id": "v", "bot": False} for time in times]
    rows = pa.Table.from_pylist(lines, requests.TABLE.arrow_schema)
    return COUNTS.partial(rows.select(list(COUNTS.needs)))


@pytest.fixture
def store(home: Settings) -> DeltaRsStore:
    delta_store = DeltaRsStore(lakehouse.of(home))
    delta_store.ensure(TRAFFIC)
    return delta_store


def state(store: DeltaRsStore) -> tuple[int, list[tuple[datetime, int]]]:
    """The table's version, and the requests of each window."""
    rows = store.read(TRAFFIC, columns=["window_start", "requests"]).to_pylist()
    return store.version(TRAFFIC), sorted((row["window_start"], row["requests"]) for row in rows)


def replaced(store: DeltaRsStore, home: Settings) -> int:
    """The number of files that the newest commit removed."""
    newest = deltalog.actions(lakehouse.of(home).log(TRAFFIC), store.version(TRAFFIC))
    return sum("remove" in action for action in newest)


def test_new_keys_are_appended_and_others_merged_each_batch_once(store: DeltaRsStore, home: Settings) -> None:
    for batch, times, expected, files in (
        (0, [NOON, NOON], [(NOON, 2)], 0),
        (0, [NOON, NOON], [(NOON, 2)], 0),  # the same batch again
        (1, [LATER], [(NOON, 2), (LATER, 1)], 0),
        (2, [NOON, LATER], [(NOON, 3), (LATER, 2)], 2),
        (3, [], [(NOON, 3), (LATER, 2)], 0),  # the number of the batch alone
    ):
        merge_into(store, TRAFFIC, COUNTS, partials(*times), Commit("requests/1", batch))
        assert state(store) == (batch + 1, expected)
        assert replaced(store, home) == files and store.committed(TRAFFIC, "requests/1") == batch
