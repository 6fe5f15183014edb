"""A change of few rows writes again the files that have one of them, and no others."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemark.contract.store import Commit
from tidemark.contract.table import Change, Column, Table
from tidemark.errors import TableError
from tidemark.store import deltars, rewriting
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse

HOURS = Table(
    name="gold.hours",
    about="A sum and a sketch by hour.",
    kind="upsert",
    key=("site", "hour"),
    time="hour",
    reads="nothing",
    columns=(
        Column("site", "string", "Site."),
        Column("hour", "timestamp", "Start."),
        Column("total", "long", "A sum."),
        Column("sketch", "binary", "Bytes that nothing compresses."),
    ),
)
LARGE = 600_000  # bytes: more than half of the size at which files aim
Rows = dict[tuple[str, int], int]


@pytest.fixture
def store(lakehouse: Lakehouse) -> DeltaRsStore:
    store = DeltaRsStore(lakehouse)
    store.ensure(HOURS)
    return store


def rows(totals: Rows, size: int = 10) -> pa.Table:
    """A row for each site and hour, with its total and a sketch of so many bytes."""
    values = [
        {
            "site": site,
            "hour": datetime(2026, 3, 1, hour, tzinfo=UTC),
            "total": total,
            "sketch": Random(total).randbytes(size),
        }
        for (site, hour), total in totals.items()
    ]
    return pa.Table.from_pylist(values, HOURS.arrow_schema)


def content(store: DeltaRsStore) -> Rows:
    read = store.read(HOURS).to_pylist()
    assert all(row["sketch"] == Random(row["total"]).randbytes(len(row["sketch"])) for row in read)
    totals = {(row["site"], row["hour"].hour): row["total"] for row in read}
    assert len(totals) == len(read), "each key once"
    return totals


def files(lakehouse: Lakehouse) -> dict[str, list[int]]:
    """The hours of each file of the newest version."""
    target = lakehouse.delta(HOURS)
    return {
        path.rsplit("/", 1)[1]: sorted(time.hour for time in pq.read_table(path)["hour"].to_pylist())
        for path in target.file_uris()
    }


def test_a_batch_writes_only_the_file_of_its_window(store: DeltaRsStore, lakehouse: Lakehouse) -> None:
    store.upsert(HOURS, Change(rows({("a", 1): 1}, LARGE)), Commit("flow/1", 0))
    store.upsert(HOURS, Change(rows({("a", 1): 2, ("a", 2): 3}, LARGE)), Commit("flow/1", 1))
    before = files(lakehouse)
    assert sorted(before.values()) == [[1], [2]], "a new window beside a large one has a file of its own"
    store.upsert(HOURS, Change(rows({("a", 2): 4}, LARGE)), Commit("flow/1", 2))
    after = files(lakehouse)
    assert [hours for file, hours in after.items() if file in before] == [[1]]
    assert content(store) == {("a", 1): 2, ("a", 2): 4}


def test_small_windows_share_a_file(store: DeltaRsStore, lakehouse: Lakehouse) -> None:
    for batch in range(4):
        hours = range(max(0, batch - 1), batch + 1)
        store.upsert(HOURS, Change(rows({("a", hour): batch for hour in hours})), Commit("flow/1", batch))
    assert list(files(lakehouse).values()) == [[0, 1, 2, 3]]
    assert content(store) == {("a", 0): 1, ("a", 1): 2, ("a", 2): 3, ("a", 3): 3}


def test_a_file_that_has_grown_is_divided_by_time(store: DeltaRsStore, lakehouse: Lakehouse) -> None:
    grown = {("a", hour): hour for hour in (5, 0, 3, 1, 4, 2)}
    store.append_arrow(HOURS, rows(grown, LARGE), Commit("flow/1", 0))
    assert len(files(lakehouse)) == 1
    store.upsert(HOURS, Change(rows({("a", 4): 40}, LARGE)), Commit("flow/1", 1))
    assert sorted(files(lakehouse).values()) == [[0, 1], [2, 3], [4, 5]]
    assert content(store) == grown | {("a", 4): 40}


def test_any_changes_give_the_rows_of_a_merge(
    store: DeltaRsStore, lakehouse: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, expected, changes = Random(1), Rows(), list[Change]()
    for _ in range(12):
        keys = [(random.choice("abc"), random.randrange(6)) for _ in range(random.randrange(1, 6))]
        deleted = {key: 0 for key in keys if random.random() < 0.3}
        written = {key: random.randrange(1_000) for key in keys if key not in deleted}
        expected = {key: total for key, total in (expected | written).items() if key not in deleted}
        changes.append(Change(rows(written), rows(deleted).select(["site", "hour"])))
    merging = DeltaRsStore(Lakehouse(str(tmp_path / "others"), str(tmp_path / "merged")))
    merging.ensure(HOURS)
    for number, change in enumerate(changes):
        store.upsert(HOURS, change, Commit("flow/1", number))
        with monkeypatch.context() as context:
            context.setattr(rewriting, "MOST_ROWS", 0)
            merging.upsert(HOURS, change, Commit("flow/1", number))
    assert content(store) == content(merging) == expected
    operations = {entry["operation"] for entry in lakehouse.delta(HOURS).history()}
    assert "MERGE" not in operations


def test_a_commit_of_another_writer_is_not_lost(
    store: DeltaRsStore, lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both rewrite the same file. The later one takes the rows of the other."""
    store.upsert(HOURS, Change(rows({("a", 1): 1, ("a", 2): 2})), Commit("flow/1", 0))
    written: list[Any] = []

    def slow(*arguments: Any) -> rewriting.Rewritten:
        result = rewriting.rewrite(*arguments)
        written.append(result)
        if len(written) == 1:
            other = DeltaRsStore(lakehouse)
            other.upsert(HOURS, Change(rows({("a", 1): 10})), Commit("flow/2", 0))
        return result

    monkeypatch.setattr(deltars, "rewrite", slow)
    store.upsert(HOURS, Change(rows({("a", 2): 20})), Commit("flow/1", 1))
    assert content(store) == {("a", 1): 10, ("a", 2): 20}
    assert len(written) == 3, "the first, the other one, and the first again"


def test_a_damaged_file_is_a_clear_error(store: DeltaRsStore, lakehouse: Lakehouse) -> None:
    store.upsert(HOURS, Change(rows({("a", 1): 1})), Commit("flow/1", 0))
    (path,) = lakehouse.delta(HOURS).file_uris()
    Path(path).write_bytes(b"damaged")
    with pytest.raises(TableError, match=r"gold.hours") as caught:
        store.upsert(HOURS, Change(rows({("a", 1): 2})), Commit("flow/1", 1))
    assert caught.value.remedy


@pytest.mark.parametrize("most_rows", [0, 1_000])
def test_a_large_sketch_is_in_a_file_once(
    store: DeltaRsStore, lakehouse: Lakehouse, most_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not again as the least and the greatest value of its column, whoever writes the file."""
    monkeypatch.setattr(rewriting, "MOST_ROWS", most_rows)
    for batch in range(2):
        store.upsert(HOURS, Change(rows({("a", 1): batch}, LARGE)), Commit("flow/1", batch))
    (path,) = lakehouse.delta(HOURS).file_uris()
    assert LARGE <= Path(path).stat().st_size < 1.1 * LARGE
