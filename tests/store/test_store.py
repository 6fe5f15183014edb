"""What every store must do; the same tests run on all: directories by delta-rs and by Spark, and S3 by delta-rs."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.cluster.s3_server import S3Server
from tidemark.contract.expression import Expression, column
from tidemark.contract.measure import Measure, Scan, count, newest, repeated, total, unfulfilled
from tidemark.contract.store import Commit, Operator, Store
from tidemark.contract.table import Change, Column, Table
from tidemark.engine.distributed import distributed
from tidemark.engine.executors import Spread
from tidemark.engine.work import ALL, Work
from tidemark.errors import TableError
from tidemark.figures import query as figures
from tidemark.figures.rows import Rows
from tidemark.store.catalog import SparkStore
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.directories import Directories
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.measures import measured
from tidemark.store.spark_change import spark_schema

WINDOWS = Table(
    name="gold.windows",
    about="Pageviews by window.",
    kind="upsert",
    key=("site", "window_start"),
    time="window_start",
    reads="nothing",
    columns=(
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start."),
        Column("pageviews", "long", "Pageviews."),
        Column("sketch", "binary", "Bytes."),
        Column("tags", "strings", "Several values."),
        Column("by_minute", "counts", "Counts by number."),
    ),
)
SITES = replace(
    WINDOWS,
    name="quality.clocks",
    key=("site",),
    time="",
    columns=(Column("site", "string", "Site."), Column("updated_at", "timestamp", "Changes with the row.")),
)

MakeStore = Callable[[], Store]


# Spark writes the tables of catalogs.
@pytest.fixture(params=["delta-rs", pytest.param("spark", marks=pytest.mark.cluster), "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lakehouse(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Lakehouse:
    checkpoints = str(tmp_path / "checkpoints")
    if kind == "s3":
        server: S3Server = request.getfixturevalue("s3_server_of_all")
        return Lakehouse(checkpoints, f"s3a://lake/{uuid.uuid4().hex}/tables", options=server.options)
    return Lakehouse(checkpoints, str(tmp_path / "tables"))


@pytest.fixture
def make_store(kind: str, spark: SparkSession, lakehouse: Lakehouse) -> MakeStore:
    """Makes stores of one kind over the same tables, as successive processes would."""
    return (lambda: SparkStore(spark, lakehouse)) if kind == "spark" else (lambda: DeltaRsStore(lakehouse))


@pytest.fixture(scope="module")
def made_by_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with a new one, to be copied: Spark takes a second to make one."""
    directory = tmp_path_factory.mktemp("made")
    SparkStore(spark, Lakehouse(str(directory / "checkpoints"), str(directory / "tables"))).ensure(WINDOWS)
    return directory / "tables"


@pytest.fixture
def store(kind: str, make_store: MakeStore, tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """A store whose table is new."""
    made = make_store()
    if kind == "spark":
        shutil.copytree(request.getfixturevalue("made_by_spark"), tmp_path / "tables")
    else:
        made.ensure(WINDOWS)
    return made


def at(minute: int) -> datetime:
    return datetime(2026, 11, 21, 10, minute, tzinfo=UTC)


def rows(*values: tuple[str, int, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "site": site,
                "window_start": at(minute),
                "pageviews": pageviews,
                "sketch": b"\0\xff",
                "tags": ["a"],
                "by_minute": [(minute, pageviews)],
            }
            for site, minute, pageviews in values
        ],
        WINDOWS.arrow_schema,
    )


def content(store: Store, *where: Any) -> list[tuple[str, int, int]]:
    found = store.read(WINDOWS, where).to_pylist()
    return sorted((row["site"], row["window_start"].minute, row["pageviews"]) for row in found)


def test_a_new_table_is_empty_and_has_its_columns(store: Store) -> None:
    assert store.read(WINDOWS).equals(WINDOWS.arrow_schema.empty_table())
    assert store.committed(WINDOWS, "flow/1") == -1


def test_its_reader_answers_queries_of_figures(store: Store) -> None:
    store.append_arrow(WINDOWS, rows(("a", 0, 1), ("a", 5, 2), ("b's", 0, 4)), Commit("flow/1", 0))
    columns = {"site": "site", "views": figures.total("pageviews")}
    where = [figures.Where("window_start", "<", at(5)), figures.Where("site", "in", ("a", "b's"))]
    asked = figures.query("gold/windows", columns, where, group_by=["site"], order_by=["site"])
    assert Rows(store.reader)(asked).values.tolist() == [["a", 1], ["b's", 4]]
    version = store.reader.version("gold/windows")
    assert version is not None and version.number == store.version(WINDOWS)


def test_ensure_keeps_what_is_there(store: Store) -> None:
    store.append_arrow(WINDOWS, rows(("a", 0, 1)), Commit("flow/1", 0))
    store.ensure(WINDOWS)
    assert content(store) == [("a", 0, 1)]


def test_ensure_adds_columns_that_a_newer_version_brings(store: Store, make_store: MakeStore) -> None:
    store.append_arrow(WINDOWS, rows(("a", 0, 1)), Commit("flow/1", 0))
    wider = replace(WINDOWS, columns=(*WINDOWS.columns, Column("visitors", "long", "New.")))
    newer = make_store()
    assert newer.read(wider)["visitors"].to_pylist() == [None]
    newer.ensure(wider)
    newer.append_arrow(wider, rows(("b", 0, 2)).append_column("visitors", pa.array([7])), Commit("flow/1", 1))
    found = newer.read(wider, columns=["site", "visitors"]).sort_by("site").to_pylist()
    assert found == [{"site": "a", "visitors": None}, {"site": "b", "visitors": 7}]


def test_a_table_that_has_a_column_more_takes_rows_without_it(store: Store, make_store: MakeStore) -> None:
    earlier = replace(
        WINDOWS, columns=(*WINDOWS.columns[:3], Column("gone", "long", ""), *WINDOWS.columns[3:])
    )
    make_store().ensure(earlier)
    newer = make_store()
    newer.append_arrow(WINDOWS, rows(("a", 0, 1)), Commit("flow/1", 0))
    newer.upsert(WINDOWS, Change(rows(("b", 0, 2))), Commit("flow/1", 1))
    assert content(newer) == [("a", 0, 1), ("b", 0, 2)]
    assert newer.read(earlier, columns=["gone"])["gone"].to_pylist() == [None, None]


def test_a_table_is_described_by_properties(store: Store, lakehouse: Lakehouse) -> None:
    properties = {"tidemark.key": "site,window_start", "tidemark.about": "It's described."}
    store.ensure(WINDOWS, properties)
    described = store.version(WINDOWS)
    store.ensure(WINDOWS, properties)
    assert store.version(WINDOWS) == described  # nothing new, no commit
    store.ensure(WINDOWS, {**properties, "tidemark.key": "site"})
    found = lakehouse.delta(WINDOWS.name).metadata().configuration
    assert {name: found[name] for name in properties} == {**properties, "tidemark.key": "site"}
    assert found["delta.checkpointInterval"] == "50"
    new = replace(WINDOWS, name="gold.described")
    store.ensure(new, properties)
    assert store.version(new) == 0
    assert lakehouse.delta(new.name).metadata().configuration.items() >= properties.items()


def test_ensure_refuses_a_table_whose_column_has_another_type(store: Store, make_store: MakeStore) -> None:
    columns = tuple(replace(c, type="string") if c.name == "pageviews" else c for c in WINDOWS.columns)
    with pytest.raises(TableError, match="pageviews"):
        make_store().ensure(replace(WINDOWS, columns=columns))


def test_rows_come_back_as_they_were(store: Store) -> None:
    sent = pa.Table.from_pylist(
        [
            {
                "site": "é\n\"'",
                "window_start": datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC),
                "pageviews": 2**62,
                "sketch": bytes(range(256)),
                "tags": ["x", None],
                "by_minute": [(0, 2**40), (1439, 1)],
            },
            dict.fromkeys(WINDOWS.column_names),
        ],
        WINDOWS.arrow_schema,
    )
    store.append_arrow(WINDOWS, sent, Commit("flow/1", 0))
    assert store.read(WINDOWS).sort_by("pageviews").to_pylist() == sent.to_pylist()


def test_an_append_that_is_repeated_adds_nothing(store: Store, make_store: MakeStore) -> None:
    store.append_arrow(WINDOWS, rows(("a", 0, 1)), Commit("flow/1", 0))
    store.append_arrow(WINDOWS, rows(("a", 0, 1)), Commit("flow/1", 0))
    make_store().append_arrow(WINDOWS, rows(("a", 0, 1)), Commit("flow/1", 0))
    store.append_arrow(WINDOWS, rows(("a", 1, 2)), Commit("flow/1", 1))
    store.append_arrow(WINDOWS, rows(("a", 0, 1)), Commit("flow/1", 0))
    assert content(store) == [("a", 0, 1), ("a", 1, 2)]


def test_an_append_without_a_number_always_adds(store: Store) -> None:
    store.append_arrow(WINDOWS, rows(("a", 0, 1)))
    store.append_arrow(WINDOWS, rows(("a", 0, 1)))
    assert content(store) == [("a", 0, 1), ("a", 0, 1)]


def test_spark_rows_are_appended_once_but_for_those_left_out(
    store: Store, make_store: MakeStore, spark: SparkSession
) -> None:
    frame = spark.createDataFrame(rows(("a", 0, 1), ("b", 0, 1)), spark_schema(WINDOWS))
    work = Work(appends=[(WINDOWS, ALL)], left_out=rows(("b", 0, 1)).select(list(WINDOWS.key)))
    for each in (store, make_store()):
        with distributed(work, Spread(frame), each, "flow-00000") as batch:
            batch.append(each, WINDOWS, ALL, Commit("flow/1", 0))
    assert content(store) == [("a", 0, 1)]
    assert make_store().committed(WINDOWS, "flow/1") == 0


def test_an_upsert_inserts_updates_and_deletes_in_one_commit(store: Store) -> None:
    store.upsert(WINDOWS, Change(rows(("a", 0, 1), ("a", 1, 1), ("b", 0, 1))), Commit("flow/1", 0))
    change = Change(rows(("a", 1, 5), ("c", 3, 9)), rows(("a", 0, 1)))
    store.upsert(WINDOWS, change, Commit("flow/1", 1))
    assert content(store) == [("a", 1, 5), ("b", 0, 1), ("c", 3, 9)]
    maps = store.read(WINDOWS, columns=["site", "by_minute"]).sort_by("site")["by_minute"].to_pylist()
    assert maps == [[(1, 5)], [(0, 1)], [(3, 9)]]


def test_an_upsert_may_only_delete(store: Store) -> None:
    store.upsert(WINDOWS, Change(rows(("a", 0, 1), ("a", 1, 1))), Commit("flow/1", 0))
    keys = rows(("a", 0, 1), ("z", 0, 1)).select(WINDOWS.key)
    store.upsert(WINDOWS, Change(rows(), keys), Commit("flow/1", 1))
    assert content(store) == [("a", 1, 1)]


def test_an_upsert_that_is_repeated_changes_nothing(store: Store, make_store: MakeStore) -> None:
    store.upsert(WINDOWS, Change(rows(("a", 0, 1))), Commit("flow/1", 0))
    store.upsert(WINDOWS, Change(rows(("a", 0, 2))), Commit("flow/1", 1))
    for again in (store, make_store()):
        again.upsert(WINDOWS, Change(rows(("a", 0, 100))), Commit("flow/1", 1))
        again.upsert(WINDOWS, Change(rows(("a", 0, 100))), Commit("flow/1", 0))
    assert content(store) == [("a", 0, 2)]


def test_a_row_is_found_by_its_key_where_no_column_of_time_is_fixed(store: Store) -> None:
    store.ensure(SITES)
    for number in range(3):
        row = {"site": "a", "updated_at": at(number)}
        store.upsert(SITES, Change(pa.Table.from_pylist([row], SITES.arrow_schema)), Commit("flow/1", number))
    assert store.read(SITES).to_pylist() == [{"site": "a", "updated_at": at(2)}]


def test_a_change_of_nothing_advances_the_number(store: Store, make_store: MakeStore) -> None:
    store.upsert(WINDOWS, Change(rows()), Commit("flow/1", 0))
    store.upsert(WINDOWS, Change(rows(), rows()), Commit("flow/1", 1))
    assert make_store().committed(WINDOWS, "flow/1") == 1
    assert content(store) == []


def test_writers_count_apart(store: Store, make_store: MakeStore) -> None:
    store.append_arrow(WINDOWS, rows(("a", 0, 1)), Commit("flow/1", 7))
    store.upsert(WINDOWS, Change(rows(("b", 0, 1))), Commit("flow/2", 0))
    assert content(store) == [("a", 0, 1), ("b", 0, 1)]
    for same in (store, make_store()):
        assert [same.committed(WINDOWS, f"flow/{n}") for n in (1, 2, 3)] == [7, 0, -1]


CONDITIONS: tuple[tuple[Operator, Any, list[int]], ...] = (
    ("=", at(2), [2]),
    ("<", at(2), [0, 1]),
    ("<=", at(2), [0, 1, 2]),
    (">", at(2), [3]),
    (">=", at(2), [2, 3]),
    ("in", [at(0), at(3)], [0, 3]),
    ("in", [], []),
)


def test_conditions(store: Store) -> None:
    store.append_arrow(WINDOWS, rows(*(("a", minute, 1) for minute in range(4))))
    for operator, value, expected in CONDITIONS:
        found = [minute for _, minute, _ in content(store, [("window_start", operator, value)])]
        assert found == expected, (operator, value)


def test_any_group_of_conditions_suffices_and_all_of_a_group_must_hold(store: Store) -> None:
    store.append_arrow(WINDOWS, rows(("a", 0, 1), ("a", 1, 2), ("b", 0, 3), ("b", 1, 4)))
    found = content(
        store, [("site", "=", "a"), ("pageviews", ">", 1)], [("site", "=", "b"), ("pageviews", "<", 4)]
    )
    assert found == [("a", 1, 2), ("b", 0, 3)]


def test_measures_of_a_version(store: Store) -> None:
    """Of NULLs, several files, a part of the rows, and a version that is not the newest."""
    many = [("a", 0, 1), ("a", 1, 2), ("b", 1, 4), ("a", 1, 8)]
    store.append_arrow(WINDOWS, rows(*many[:2]))
    lacking = [{"site": None, "pageviews": 16, "window_start": at(1)}, {"site": "a", "window_start": at(2)}]
    store.append_arrow(
        WINDOWS, pa.concat_tables([rows(*many[2:]), pa.Table.from_pylist(lacking, WINDOWS.arrow_schema)])
    )
    version = store.version(WINDOWS)
    store.append_arrow(WINDOWS, rows(("c", 3, 32)))
    start, site, views = column("window_start"), column("site"), column("pageviews")
    measures = [
        count(), unfulfilled(views >= 2), unfulfilled(~site.matches("[ab]")), total("pageviews", site == "a"),
        total("pageviews", site != "x"), newest("window_start"), repeated(["site", "window_start"]),
    ]  # fmt: skip

    def measured(where: Expression | None, *wanted: Measure) -> list[int | None]:
        return store.measure([Scan(WINDOWS, version, wanted or measures, where)])[0]

    def micros(minute: int) -> int:
        return int(at(minute).timestamp()) * 1_000_000

    assert measured(None) == [6, 2, 6, 11, 15, micros(2), 2]
    assert measured(start > at(0)) == [5, 1, 5, 10, 14, micros(2), 2]
    assert measured(start > at(9)) == [0, 0, 0, 0, 0, None, 0]
    assert measured(None, count()) == [6]
    assert measured(start <= at(1), count()) == [5]
    assert store.measure([]) == []


@pytest.mark.parametrize("most_keys", [1, 3, 100, 1_000])
def test_repeated_keys_are_found_in_several_passes(tmp_path: Path, most_keys: int) -> None:
    lakehouse = Lakehouse(str(tmp_path / "checkpoints"), str(tmp_path / "tables"))
    store = DeltaRsStore(lakehouse)
    store.ensure(WINDOWS)
    for first in (0, 20):
        store.append_arrow(WINDOWS, rows(*((f"s{n % 37}", n % 5, n) for n in range(first, first + 40))))
    scan = Scan(WINDOWS, store.version(WINDOWS), [repeated(WINDOWS.key), count()])
    target = lakehouse.delta(WINDOWS)
    assert measured(target, lakehouse.dataset(WINDOWS, target), scan, most_keys) == [20, 80]


def test_columns_come_in_the_order_asked_for(store: Store) -> None:
    store.append_arrow(WINDOWS, rows(("a", 0, 1)))
    found = store.read(WINDOWS, columns=["pageviews", "site"])
    assert [list(row.items()) for row in found.to_pylist()] == [[("pageviews", 1), ("site", "a")]]


def test_what_a_store_tells_of_a_table(store: Store, make_store: MakeStore) -> None:
    assert store.exists(WINDOWS) and not store.exists(SITES)
    assert not store.has_batches_of(WINDOWS, "flow")
    before = store.version(WINDOWS)
    store.append_arrow(WINDOWS, rows(("a", 0, 1), ("a", 1, 1)), Commit("flow/1", 0))
    store.append_arrow(WINDOWS, rows(("b", 0, 1)), Commit("flow/1", 1))
    newer = make_store()
    assert newer.has_batches_of(WINDOWS, "flow") and not newer.has_batches_of(WINDOWS, "other")
    assert newer.rows_since(WINDOWS, before + 1) == 3
    assert make_store().rows_since(WINDOWS, before + 2) == 1


@pytest.mark.parametrize("kind", ["delta-rs"])
@pytest.mark.parametrize("backwards", [False, True])
def test_each_store_goes_on_with_the_others_table(
    backwards: bool, spark: SparkSession, lakehouse: Lakehouse
) -> None:
    first: Store = DeltaRsStore(lakehouse)
    second: Store = SparkStore(spark, lakehouse)
    if backwards:
        first, second = second, first
    first.ensure(WINDOWS)
    first.upsert(WINDOWS, Change(rows(("a", 0, 1), ("a", 1, 1))), Commit("flow/1", 0))
    second.ensure(WINDOWS)
    second.upsert(WINDOWS, Change(rows(("a", 0, 100))), Commit("flow/1", 0))
    assert content(second) == [("a", 0, 1), ("a", 1, 1)], "the commit was there already"
    second.upsert(WINDOWS, Change(rows(("a", 0, 2)), rows(("a", 1, 1))), Commit("flow/1", 1))
    first.upsert(WINDOWS, Change(rows(("a", 0, 100))), Commit("flow/1", 1))
    first.append_arrow(WINDOWS, rows(("b", 0, 3)), Commit("flow/1", 2))
    assert content(first) == content(second) == [("a", 0, 2), ("b", 0, 3)]


def test_a_missing_table_is_a_clear_error(make_store: MakeStore, lakehouse: Lakehouse) -> None:
    store = make_store()
    change, commit = Change(rows(("a", 0, 1))), Commit("flow/1", 0)
    for act in (
        lambda: store.read(WINDOWS),
        lambda: store.committed(WINDOWS, "flow/1"),
        lambda: store.append_arrow(WINDOWS, change.rows, commit),
        lambda: store.upsert(WINDOWS, change, commit),
    ):
        with pytest.raises(TableError, match=r"gold.windows|gold/windows") as caught:
            act()
        assert caught.value.remedy and "\n" not in str(caught.value)
    assert not lakehouse.exists(WINDOWS), "nothing may be made by the way"


@pytest.mark.parametrize("garbage", [b"", b"{", b"\xff\xfe", b'{"add": 1}\n'])
def test_a_damaged_log_is_a_clear_error(
    store: Store, make_store: MakeStore, lakehouse: Lakehouse, garbage: bytes, tmp_path: Path
) -> None:
    assert store.version(WINDOWS) == 0
    log, files = lakehouse.log(WINDOWS).directory, lakehouse.files
    files.clear(log)
    (tmp_path / "garbage").write_bytes(garbage)
    files.take(Directories("/"), str(tmp_path / "garbage"), f"{log}/{0:020}.json")
    for act in (lambda: make_store().ensure(WINDOWS), lambda: make_store().read(WINDOWS)):
        with pytest.raises(TableError) as caught:
            act()
        assert "\n" not in str(caught.value)
