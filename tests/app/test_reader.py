"""The contract of a reader, held by both backends.

The warehouse backend runs against a real Spark SQL engine over the same rows: the SQL and the error
conditions are those of Databricks SQL. `DESCRIBE HISTORY` is answered from the Delta log. Named parameters are
bound here, because Delta's parser loses them on Spark 4.2. The connection is tests/bundle/test_app.py's.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests import processes
from tests.app import tables
from tidemark.figures.dialects import SparkSql
from tidemark.figures.query import (
    AnyOf,
    Condition,
    Exists,
    Where,
    as_text,
    bucket,
    count,
    count_true,
    distinct_values,
    filled,
    greatest,
    later,
    least,
    log_bucket,
    median,
    prefix,
    query,
    time_bin,
    total,
)
from tidemark.figures.reader import MissingColumnError, MissingTableError, Reader, ReadError, plain
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.reader_warehouse import of_schema
from tidemark.figures.rows import Rows
from tidemark.figures.visitors import distinct
from tidemark.local.process import wait_until

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
Open = Callable[[Path], Reader]


def bound(sql: str, parameters: dict[str, Any]) -> str:
    """The statement with literals for its named parameters."""
    return re.sub(r":([a-z_0-9]+)\b", lambda match: literal(parameters[match[1]]), sql)


literal = SparkSql().value


@pytest.fixture(params=["delta", "url", "warehouse"])
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a home's tables with one of the backends."""
    if request.param == "delta":
        yield DeltaReader
        return
    if request.param == "url":
        yield lambda home: DeltaReader(home / "elsewhere", f"file://{home}/tables/")
        return
    session = request.getfixturevalue("spark")

    def warehouse(home: Path) -> Reader:
        session.sql("CREATE SCHEMA IF NOT EXISTS dash")
        deltas = {}
        for table in tables.DECLARED:
            if (home / "tables" / table).is_dir():
                name, path = table.replace("/", "_"), home / "parquet" / table
                deltas[name] = DeltaTable(str(home / "tables" / table))
                path.mkdir(parents=True)
                pq.write_table(deltas[name].to_pyarrow_table(), path / "rows.parquet")
                session.sql(f"CREATE TABLE dash.{name} USING parquet LOCATION '{path}'")
                for key, value in deltas[name].metadata().configuration.items():
                    session.sql(
                        f"ALTER TABLE dash.{name} SET TBLPROPERTIES ({literal(key)} = {literal(value)})"
                    )
                for field in deltas[name].schema().fields:
                    comment = literal(field.metadata.get("comment", ""))
                    session.sql(f"ALTER TABLE dash.{name} ALTER COLUMN `{field.name}` COMMENT {comment}")

        def execute(sql: str, parameters: dict[str, Any]) -> pa.Table:
            if (history := re.fullmatch(r"DESCRIBE HISTORY (\S+) LIMIT 1", sql)) is None:
                return session.sql(bound(sql, parameters)).toArrow()
            session.table(history[1])
            entry = deltas[history[1].split(".")[-1].strip("`")].history(1)[0]
            at = datetime.fromtimestamp(entry["timestamp"] / 1000, UTC)
            return pa.table({"version": [entry["version"]], "timestamp": [at]})

        return of_schema("spark_catalog", "dash", execute)

    yield warehouse
    session.sql("DROP SCHEMA IF EXISTS dash CASCADE")


def read(reader: Reader, *args: Any, **kwargs: Any) -> pd.DataFrame:
    return Rows(reader)(query(*args, **kwargs))


def sessions(home: Path) -> None:
    rows = [
        tables.session(1, NOON, ["/"], 0, site="a"),
        tables.session(2, NOON + timedelta(minutes=20), ["/", "/x"], 40, site="a", closed=False),
        tables.session(
            3, NOON + timedelta(minutes=70), ["/x", "/", "/y"], 100, site='it\'s \\ "b"', country="US"
        ),
    ]
    tables.write(home, "silver/sessions", rows)


def test_columns_filters_order_and_limit(tmp_path: Path, opened: Open) -> None:
    sessions(tmp_path)
    reader = opened(tmp_path)
    where = [Where("site", "=", "a"), Where("start_time", ">=", NOON + timedelta(minutes=1))]

    rows = read(reader, "silver/sessions", ["session_id", "start_time", "closed"], where)
    last = read(reader, "silver/sessions", ["session_id"], order_by=["-start_time"], limit=2)

    assert rows.to_dict("records") == [
        {"session_id": "s2", "start_time": NOON + timedelta(minutes=20), "closed": False}
    ]
    assert str(rows["start_time"].dtype) == "datetime64[us, UTC]"
    assert list(last["session_id"]) == ["s3", "s2"]


@pytest.mark.parametrize("site", ["a", 'it\'s \\ "b"'])
def test_coded_columns_have_the_same_values(tmp_path: Path, opened: Open, site: str) -> None:
    sessions(tmp_path)
    reader = opened(tmp_path)
    where = (Where("site", "=", site), Where("start_time", "<", NOON + timedelta(hours=2)))
    request = query("silver/sessions", {"who": "session_id", "from": "country", "start": "start_time"}, where)

    result, wanted = reader.coded(request, ("country", "site")).read_all(), plain(reader.arrow(request))

    assert result.num_rows
    by_start = [("start", "ascending")]
    assert result.sort_by(by_start).to_pylist() == wanted.sort_by(by_start).to_pylist()
    assert result.schema.field("start").type == pa.timestamp("us", "UTC")


def test_a_value_with_quotes_and_backslashes_is_only_a_value(tmp_path: Path, opened: Open) -> None:
    sessions(tmp_path)
    reader = opened(tmp_path)

    rows = read(reader, "silver/sessions", ["session_id"], [Where("site", "=", 'it\'s \\ "b"')])
    inside = read(reader, "silver/sessions", ["session_id"], [Where("site", "in", ("a", 'it\'s \\ "b"'))])
    attack = read(reader, "silver/sessions", ["session_id"], [Where("site", "=", "a' OR '1'='1")])
    none = read(reader, "silver/sessions", ["session_id"], [Where("site", "in", ())])

    assert list(rows["session_id"]) == ["s3"]
    assert (len(inside), len(attack), len(none)) == (3, 0, 0)


def test_aggregates(tmp_path: Path, opened: Open) -> None:
    sessions(tmp_path)
    reader = opened(tmp_path)
    columns = {
        "n": count(), "pages": total("pageviews"), "middle": median("duration_seconds"),
        "bounced": count_true("bounced"), "first": least("start_time"), "last": greatest("start_time"),
    }  # fmt: skip

    result = read(reader, "silver/sessions", columns).iloc[0]
    empty = read(reader, "silver/sessions", columns, [Where("site", "=", "none")]).iloc[0]

    assert (result["n"], result["pages"], result["middle"], result["bounced"]) == (3, 6, 40, 1)
    assert (result["first"], result["last"]) == (NOON, NOON + timedelta(minutes=70))
    assert (empty["n"], empty["pages"], empty["bounced"]) == (0, 0, 0)


def test_groups_time_bins_and_buckets(tmp_path: Path, opened: Open) -> None:
    sessions(tmp_path)
    reader = opened(tmp_path)

    hours = read(
        reader, "silver/sessions", {"bin": time_bin("start_time", 3600), "n": count()},
        group_by=["bin"], order_by=["bin"],
    )  # fmt: skip
    lasting = read(
        reader, "silver/sessions", {"bucket": bucket("duration_seconds", (1, 60)), "n": count()},
        group_by=["bucket"], order_by=["-bucket"],
    )  # fmt: skip

    assert list(hours.itertuples(index=False, name=None)) == [(NOON, 2), (NOON + timedelta(hours=1), 1)]
    assert list(lasting.itertuples(index=False, name=None)) == [(2, 1), (1, 1), (0, 1)]


def test_texts_that_match_null_and_rows_of_another_table(tmp_path: Path, opened: Open) -> None:
    """Everything by which the engines differ beside time bins: each must give the same rows."""
    rows = [
        tables.session(1, NOON, ["/it's"], 0, site="a", source=None),
        tables.session(2, NOON, ["/ü%_\\"], 40, site="b", source="news"),
        tables.session(3, NOON, ["/"], 2, site="b", source=""),
    ]
    tables.write(tmp_path, "silver/sessions", rows)
    tables.write(
        tmp_path,
        "gold/traffic",
        [{"site": "b", "window_start": NOON + timedelta(minutes=30), "requests": 1000}],
    )
    reader = opened(tmp_path)

    def kept(*where: Condition) -> list[str]:
        return list(
            read(reader, "silver/sessions", ["session_id"], where, order_by=["session_id"])["session_id"]
        )

    assert kept(Where("entry_page", "contains", "t's")) == ["s1"]
    assert (
        kept(Where("entry_page", "contains", "%_\\"))
        == kept(Where("entry_page", "starts with", "/ü"))
        == ["s2"]
    )
    assert kept(Where("entry_page", "matches", r"(?s)^/ü.*\\$")) == ["s2"]
    assert kept(Where(as_text("duration_seconds"), "starts with", "4")) == ["s2"]
    assert kept(Where(filled("source"), "=", "")) == ["s1", "s3"]
    assert kept(Where("source", "not in", ("", "x"))) == ["s2"]
    assert kept(AnyOf((Where("source", "is null"), Where("source", "in", ("news",))))) == ["s1", "s2"]
    assert kept(Where(prefix("entry_page", 2), "=", "/ü")) == ["s2"]
    same = ("site", "=", "site")
    assert kept(Exists("gold/traffic", (same, ("window_start", "<=", later("end_time", 1760))))) == ["s2"]
    assert kept(Exists("gold/traffic", (same,), (Where("requests", ">", 1000),))) == []
    columns = {
        "people": distinct_values("site"),
        "long": count(Where("duration_seconds", ">", 1)),
        "sum": total("duration_seconds", Where("site", "=", "a")),
    }
    assert read(reader, "silver/sessions", columns).iloc[0].tolist() == [2, 2, 0]
    buckets = {"bucket": log_bucket("requests", 1.01 / 0.99), "n": count()}
    assert read(reader, "gold/traffic", buckets, group_by=["bucket"])["bucket"].tolist() == [346]


def test_bytes_and_lists_come_through(tmp_path: Path, opened: Open) -> None:
    tables.write(tmp_path, "silver/rejected", [tables.rejected(0, NOON, b"\xff\x00", "bad", "worse")])

    result = read(opened(tmp_path), "silver/rejected", ["value", "reasons"]).iloc[0]

    assert bytes(result["value"]) == b"\xff\x00"
    assert list(result["reasons"]) == ["bad", "worse"]


def test_visitors_are_united(tmp_path: Path, opened: Open) -> None:
    requests = [tables.Request(NOON + timedelta(hours=i), f"v{i % 7}") for i in range(40)]
    tables.write_gold(tmp_path, requests)

    assert distinct(Rows(opened(tmp_path)), "gold/traffic", ())["visitors"].item() == 7


def test_versions_and_missing_tables(tmp_path: Path, opened: Open) -> None:
    sessions(tmp_path)
    sessions(tmp_path)
    reader = opened(tmp_path)
    version = reader.version("silver/sessions")

    assert version is not None and version.number == 2
    assert abs(version.committed_at - datetime.now(UTC)) < timedelta(minutes=5)
    assert reader.version("gold/traffic") is None
    with pytest.raises(MissingTableError, match="gold/traffic does not exist"):
        read(reader, "gold/traffic", ["site"])


def test_a_table_says_what_its_contract_is(tmp_path: Path, opened: Open) -> None:
    tables.write(tmp_path, "gold/requests_by_status", [])
    tables.write(tmp_path, "silver/sessions", [])
    reader = opened(tmp_path)

    result = reader.contract("gold/requests_by_status")
    assert result.names("key") == ["site", "window_start", "status"]
    assert result.names("counts") == ["requests", "bytes"]  # distinct visitors do not add up
    assert result.number("window_seconds") == 3600
    assert result.properties["time"] == "window_start"
    assert result.columns["requests"] == "Accepted requests with it."
    assert reader.contract("silver/sessions").number("gap_seconds") == 1800
    assert reader.contract("silver/sessions").number("window_seconds") is None
    with pytest.raises(MissingTableError):
        reader.contract("gold/nothing")


def test_a_column_that_is_not_there_yet_is_an_error_of_one_line(tmp_path: Path, opened: Open) -> None:
    sessions(tmp_path)
    reader, lacking = opened(tmp_path), query("silver/sessions", ["nothing"])

    for ask in (reader.arrow, lambda q: reader.coded(q, ["nothing"]).read_all()):
        with pytest.raises(MissingColumnError, match="silver/sessions has no column nothing yet") as caught:
            ask(lacking)
        assert "\n" not in str(caught.value) and "`tidemark run`" in caught.value.remedy


def test_new_rows_are_seen_by_an_open_reader(tmp_path: Path) -> None:
    sessions(tmp_path)
    reader = DeltaReader(tmp_path)
    assert len(read(reader, "silver/sessions", ["session_id"])) == 3

    tables.write(tmp_path, "silver/sessions", [tables.session(4, NOON, ["/"])], mode="append")

    assert len(read(reader, "silver/sessions", ["session_id"])) == 4
    assert reader.version("silver/sessions").number == 2


def test_a_table_that_was_recomputed_is_opened_again(tmp_path: Path) -> None:
    sessions(tmp_path)
    sessions(tmp_path)
    reader = DeltaReader(tmp_path)
    assert reader.version("silver/sessions").number == 2
    (tmp_path / "tables").rename(tmp_path / "old")
    assert reader.version("silver/sessions") is None

    tables.write(tmp_path, "silver/sessions", [tables.session(9, NOON, ["/"])])

    assert reader.version("silver/sessions").number == 1
    assert list(read(reader, "silver/sessions", ["session_id"])["session_id"]) == ["s9"]


class Overtaken(DeltaReader):
    """A reader whose table is replaced by one session right after it was opened for the first time."""

    opened = 0

    def __init__(self, home: Path, replace: Callable[[str], None]) -> None:
        super().__init__(home)
        self._replace = replace

    def _latest(self, table: str) -> DeltaTable:
        handle = super()._latest(table)
        self.opened += 1
        if self.opened == 1:
            self._replace(table)
        return handle


def test_a_table_that_is_replaced_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    """As by `forget`, which deletes the files of the version before at once."""
    sessions(tmp_path)

    def replace(table: str) -> None:
        tables.write(tmp_path, table, [tables.session(9, NOON, ["/"])], mode="overwrite")
        there = DeltaTable(tmp_path / "tables" / table)
        assert there.vacuum(0, enforce_retention_duration=False, dry_run=False)

    reader = Overtaken(tmp_path, replace)
    assert list(reader.arrow(query("silver/sessions", ["session_id"]))["session_id"].to_pylist()) == ["s9"]
    assert reader.opened == 2


@pytest.mark.parametrize("ask", ["arrow", "version", "files", "contract"])
def test_a_table_that_is_made_anew_while_it_is_read_is_read_again(tmp_path: Path, ask: str) -> None:
    """As by a rebuild, which puts a table with a log of its own in the place of the one before."""
    for _ in range(3):
        sessions(tmp_path)

    def replace(table: str) -> None:
        (tmp_path / "tables").rename(tmp_path / "before")
        tables.write(tmp_path, table, [tables.session(9, NOON, ["/"])])
        shutil.rmtree(tmp_path / "before")

    reader = Overtaken(tmp_path, replace)
    if ask == "arrow":
        assert reader.arrow(query("silver/sessions", ["session_id"]))["session_id"].to_pylist() == ["s9"]
    elif ask == "version":
        assert reader.version("silver/sessions").number == 1
    elif ask == "files":
        reader.files("silver/sessions", "start_time")
    else:
        reader.contract("silver/sessions")
    assert reader.version("silver/sessions").number == 1
    assert len(reader.files("silver/sessions", "start_time") or []) == 1


def test_a_corrupt_table_is_a_read_error_and_works_again_once_repaired(tmp_path: Path) -> None:
    sessions(tmp_path)
    log = tmp_path / "tables/silver/sessions/_delta_log/00000000000000000000.json"
    good = log.read_bytes()
    log.write_bytes(b"{broken")
    reader = DeltaReader(tmp_path)

    with pytest.raises(ReadError, match="silver/sessions cannot be read"):
        reader.version("silver/sessions")
    log.write_bytes(good)
    assert len(read(reader, "silver/sessions", ["session_id"])) == 3


def test_spark_sketches_are_united(tmp_path: Path, spark: Any) -> None:
    """The pipeline's sketches are Spark's, so what Spark writes must count as Spark counts it."""
    from tidemark.figures.sketches import unite

    rows = spark.sql(
        "SELECT theta_sketch_agg(cast(id % 900 AS STRING), 20) AS sketch FROM range(5000) GROUP BY id DIV 999"
    ).toArrow()

    assert unite(rows.column("sketch"), np.zeros(len(rows), np.int64))[0].count() == 900


def test_an_error_names_the_cause_of_the_system(tmp_path: Path) -> None:
    """Such as too many open files, which delta-rs says in its last line."""
    tables.write(tmp_path, "gold/pages", [{"site": "shop"}])
    entry = next((tmp_path / "tables" / "gold" / "pages" / "_delta_log").glob("*.json"))
    entry.unlink()
    entry.symlink_to(entry)
    with pytest.raises(
        ReadError, match=r"^gold/pages cannot be read: .*Too many levels of symbolic links \(os error 40\)"
    ):
        DeltaReader(tmp_path).version("gold/pages")


def test_other_threads_run_while_a_query_waits_for_a_file(tmp_path: Path) -> None:
    sessions(tmp_path)
    [rows] = (tmp_path / "tables/silver/sessions").glob("*.parquet")
    kept, pipe = rows.with_suffix(".kept"), rows.with_suffix(".pipe")
    rows.rename(kept)
    os.mkfifo(rows)
    os.link(rows, pipe)
    # Ends the wait of a query that lets nobody else run.
    end = 'sleep 30; mv "$1" "$2"; : >"$3"'
    guard = processes.Popen(["sh", "-c", end, "sh", *map(str, (kept, rows, pipe))])
    opened: list[int] = []

    def waits() -> bool:
        try:
            opened.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads it
            return False
        return True

    try:
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(lambda: read(DeltaReader(tmp_path), "silver/sessions", ["session_id"]))
            assert wait_until(waits, 60)
            assert not answer.done() and guard.poll() is None
            kept.rename(rows)
            os.close(opened.pop())  # the query reads nothing, and tries again
            assert sorted(answer.result(60)["session_id"]) == ["s1", "s2", "s3"]
    finally:
        guard.kill()
        guard.wait()
