"""Data files are committed without delta-rs, to the same effect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidemark.contract.store import Commit
from tidemark.contract.table import Change, Column, Table
from tidemark.operate.repair import trim
from tidemark.store import deltalog
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse

COLUMNS = (Column("name", "string", "Name."), Column("number", "long", "Number."))
LINES = Table(
    name="bronze.lines",
    about="Rows.",
    kind="append",
    key=("name",),
    time="",
    reads="nothing",
    columns=COLUMNS,
)
TOTALS = replace(LINES, name="gold.totals", kind="upsert")


@pytest.fixture
def store(lakehouse: Lakehouse) -> DeltaRsStore:
    store = DeltaRsStore(lakehouse)
    for table in (LINES, TOTALS):
        store.ensure(table)
    return store


def rows(**numbers: int) -> pa.Table:
    return pa.table(
        {"name": list(numbers), "number": pa.array(numbers.values(), pa.int64())}, LINES.arrow_schema
    )


def content(store: DeltaRsStore, table: Table) -> dict[str, int]:
    """The numbers by name, each of which the table has once."""
    there = store.read(table).to_pylist()
    numbers = {row["name"]: row["number"] for row in there}
    assert len(numbers) == len(there)
    return numbers


def test_two_processes_commit_in_turn(store: DeltaRsStore, lakehouse: Lakehouse) -> None:
    other = DeltaRsStore(lakehouse)
    for number in range(6):
        store.append_arrow(LINES, rows(**{f"a{number}": 1}), Commit("flow/1", number))
        other.append_arrow(LINES, rows(**{f"b{number}": 1}), Commit("flow/2", number))
        other.append_arrow(LINES, rows(again=1), Commit("flow/1", number))
        store.upsert(TOTALS, Change(rows(a=number, both=number)), Commit("flow/1", number))
        other.upsert(TOTALS, Change(rows(b=number, both=-number)), Commit("flow/2", number))
        store.upsert(TOTALS, Change(rows(a=100)), Commit("flow/2", number))
    for each in (store, other, DeltaRsStore(lakehouse)):
        assert content(each, LINES) == {f"{name}{n}": 1 for n in range(6) for name in "ab"}
        assert content(each, TOTALS) == {"a": 5, "b": 5, "both": -5}
        for table in (LINES, TOTALS):
            assert [each.committed(table, f"flow/{n}") for n in range(4)] == [-1, 5, 5, -1]


def test_a_commit_that_another_process_makes_first_stays(
    store: DeltaRsStore, lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, commit = DeltaRsStore(lakehouse), deltalog.commit

    def second(log: deltalog.Log, version: int, made: Any) -> bool:
        monkeypatch.setattr(deltalog, "commit", commit)
        other.upsert(TOTALS, Change(rows(b=2, c=3)), Commit("other/1", 0))
        other.append_arrow(LINES, rows(b=2), Commit("other/1", 0))
        return commit(log, version, made)

    store.upsert(TOTALS, Change(rows(a=1, b=1)), Commit("flow/1", 0))
    monkeypatch.setattr(deltalog, "commit", second)
    store.upsert(TOTALS, Change(rows(a=10)), Commit("flow/1", 1))
    assert content(store, TOTALS) == {"a": 10, "b": 2, "c": 3}
    store.append_arrow(LINES, rows(a=1), Commit("flow/1", 0))
    assert content(store, LINES) == {"a": 1, "b": 2}
    # Nothing is left of the commit that came too late.
    names = [entry.base_name for entry in lakehouse.log(TOTALS).entries()]
    assert names == [f"{version:020}.json" for version in range(4)]


def test_every_fiftieth_version_has_a_checkpoint(store: DeltaRsStore, lakehouse: Lakehouse) -> None:
    for number in range(60):
        store.append_arrow(LINES, rows(**{f"a{number}": number}), Commit("flow/1", number))
    names = [entry.base_name for entry in lakehouse.log(LINES).entries()]
    assert [name for name in names if "checkpoint." in name] == [f"{49:020}.checkpoint.parquet"]
    newer = DeltaRsStore(lakehouse)
    assert newer.committed(LINES, "flow/1") == 59
    assert content(newer, LINES) == {f"a{number}": number for number in range(60)}


def test_delta_rs_commits_to_a_table_of_a_later_protocol(store: DeltaRsStore, lakehouse: Lakehouse) -> None:
    def program() -> str:
        return str(lakehouse.delta(LINES).history(1)[0]["engineInfo"])

    store.append_arrow(LINES, rows(a=1), Commit("flow/1", 0))
    assert program() == "tidemark"
    lakehouse.delta(LINES).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    store.append_arrow(LINES, rows(b=2), Commit("flow/1", 1))
    assert program().startswith("delta-rs")
    assert content(store, LINES) == {"a": 1, "b": 2}


def test_files_of_any_name_are_removed(store: DeltaRsStore, lakehouse: Lakehouse) -> None:
    """A name of another program may have characters that the log writes otherwise."""
    store.append_arrow(TOTALS, rows(a=1), Commit("flow/1", 0))
    log, table = lakehouse.log(TOTALS), Path(lakehouse.directory(TOTALS))
    entry = Path(log.directory) / f"{1:020}.json"
    name = next(table.glob("*.parquet")).name
    (table / name).rename(table / f"a b%20-{name}")
    entry.write_text(entry.read_text().replace(name, f"a%20b%2520-{name}"))
    newer = DeltaRsStore(lakehouse)
    assert content(newer, TOTALS) == {"a": 1}
    newer.upsert(TOTALS, Change(rows(a=2)), Commit("flow/1", 1))
    assert content(newer, TOTALS) == {"a": 2}


def test_a_line_of_the_log_ends_at_a_line_feed_only(store: DeltaRsStore, lakehouse: Lakehouse) -> None:
    store.append_arrow(LINES, rows(a=1), Commit("flow", 0))
    for ending in "\u2028\u2029\x85":  # JSON does not escape them
        name = f"a{ending}b"
        store.append_arrow(LINES, rows(**{name: 2}), Commit(name, 0))
        store.newest(LINES).delete(f"name = '{name}'")
        assert deltalog.actions(lakehouse.log(LINES), store.version(LINES))
    assert trim(Path(lakehouse.log(LINES).directory)) == []
    assert store.read(LINES).num_rows == 1
