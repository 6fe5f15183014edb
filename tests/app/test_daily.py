"""Counts from days that are kept equal those that are read at once, whatever happens to the table meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from app.dashboard import ahead
from tests.app import lakehouse
from tidemark.figures import bots, daily, errors, searches, suspected
from tidemark.figures.bins import Bins
from tidemark.figures.permitted import Permitted, permitted
from tidemark.figures.query import (
    Columns,
    Exists,
    Query,
    Where,
    count,
    count_true,
    distinct_values,
    filled,
    greatest,
    least,
    median,
    query,
    total,
)
from tidemark.figures.reader import Files, Reader, Through
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.recent import Recent
from tidemark.figures.right import EVERYTHING, Right
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, filters_of
from tidemark.figures.unions import UnionCache
from tidemark.figures.zones import shifts

START, DAYS = lakehouse.START, 6
END = START + timedelta(days=DAYS)
TABLE = "silver/requests"
BY: Columns = {"path": "path", "channel": filled("channel")}
COUNTS: Columns = {
    "requests": count(),
    "failed": count(Where("status", ">=", 400)),
    "bytes": total("bytes"),
    "views": count_true("pageview"),
    "newest": greatest("event_time"),
    "oldest": least("event_time"),
}


@dataclass(frozen=True)
class Watching(Through):
    """Records the bounds of what is read of silver.requests."""

    read: list[tuple[datetime, datetime]] = field(default_factory=list)

    def arrow(self, q: Query) -> pa.Table:
        self._record(q)
        return super().arrow(q)

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        self._record(q)
        return super().coded(q, names)

    def _record(self, q: Query) -> None:
        bounds = [each.value for each in q.where if isinstance(each, Where) and each.column == "event_time"]
        if bounds:
            self.read.append((min(bounds), max(bounds)))


class Unknown(DeltaReader):
    """It knows no files, so that everything is read at once."""

    def files(self, table: str, time: str) -> Files | None:
        return None


def lines() -> list[dict[str, object]]:
    """Lines of two sites on every one of the DAYS."""
    rows = []
    for part in range(DAYS // lakehouse.DAYS):
        for row in lakehouse.requests(part + 1, visitors=60):
            row["event_time"] += timedelta(days=part * lakehouse.DAYS)
            rows.append(row)
    return rows


def write_days(home: Path, rows: list[dict[str, object]]) -> None:
    """Each day in a file of its own, as a pipeline that always runs makes them."""
    lakehouse.build(home, rows, END)
    path = str(home / "tables" / TABLE)
    every = DeltaTable(path).to_pyarrow_table()
    for mode, number in (("overwrite", 0), *(("append", n) for n in range(1, DAYS))):
        at = pa.compute.floor_temporal(every["event_time"], unit="day")
        first = pa.scalar(START + timedelta(days=number), at.type)
        write_deltalake(path, every.filter(pa.compute.equal(at, first)), mode=mode)


def add(home: Path, *rows: dict[str, object]) -> None:
    """A file with further lines, like the first one but for these values."""
    path = str(home / "tables" / TABLE)
    known = DeltaTable(path).to_pyarrow_table()
    like = known.slice(0, 1).to_pylist()[0]
    write_deltalake(path, pa.Table.from_pylist([like | row for row in rows], known.schema), mode="append")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("written")
    write_days(directory, lines())
    return directory


@pytest.fixture
def home(written: Path, tmp_path: Path) -> Path:
    """A home of these days, which a test may change."""
    return shutil.copytree(written, tmp_path, dirs_exist_ok=True)


def wanted(start: datetime, end: datetime | None = None, **more: object) -> Query:
    where = [Where("event_time", ">=", start), *([] if end is None else [Where("event_time", "<", end)])]
    return query(TABLE, {**BY, **COUNTS}, where, group_by=list(BY), **more)  # type: ignore[arg-type]


def same(left: pd.DataFrame, right: pd.DataFrame) -> None:
    order = list(left.columns)
    pd.testing.assert_frame_equal(
        *(each.sort_values(order, ignore_index=True) for each in (left, right)), check_dtype=False
    )


def at_once(home: Path, q: Query) -> pd.DataFrame:
    return Rows(Unknown(home))(q)


def test_a_range_that_moves_reads_its_first_day_again(home: Path) -> None:
    reader = Watching(DeltaReader(home))
    rows = Rows(reader)
    for hours in (0, 1, 2, 30):
        reader.read.clear()
        start = START + timedelta(hours=5 + hours)
        same(daily.counted(rows, wanted(start), "event_time"), at_once(home, wanted(start)))
        day = start.replace(hour=0)
        assert reader.read == ([(start, END)] if not hours else [(start, day + timedelta(days=1))])
    same(daily.counted(rows, wanted(start), "event_time"), at_once(home, wanted(start)))
    assert len(reader.read) == 1


@pytest.mark.parametrize("end", [END - timedelta(hours=7), START + timedelta(days=3), None])
def test_order_limit_and_end_are_those_of_the_query(home: Path, end: datetime | None) -> None:
    q = wanted(START + timedelta(minutes=77), end, order_by=["-requests", "path", "channel"], limit=7)
    rows = Rows(DeltaReader(home))
    for _ in range(2):
        result = daily.counted(rows, q, "event_time")
        pd.testing.assert_frame_equal(result, at_once(home, q), check_dtype=False)


def test_a_line_of_an_old_day_is_counted(home: Path) -> None:
    reader = Watching(DeltaReader(home))
    rows, q = Rows(reader), wanted(START)
    daily.counted(rows, q, "event_time")
    reader.read.clear()

    second = START + timedelta(days=1)
    add(home, {"event_time": second + timedelta(hours=3), "path": "/late", "bytes": 77})

    same(daily.counted(rows, q, "event_time"), at_once(home, q))
    assert reader.read == [(second, second + timedelta(days=1))]


def test_days_follow_a_table_that_is_changed_restored_and_replaced(home: Path) -> None:
    rows, q = Rows(DeltaReader(home)), wanted(START)
    path = str(home / "tables" / TABLE)
    before = daily.counted(rows, q, "event_time")
    version = DeltaTable(path).version()

    DeltaTable(path).delete("path = '/a'")
    changed = daily.counted(rows, q, "event_time")
    same(changed, at_once(home, q))
    assert "/a" not in set(changed["path"])
    DeltaTable(path).restore(version)
    same(daily.counted(rows, q, "event_time"), before)
    DeltaTable(path).optimize.compact()
    same(daily.counted(rows, q, "event_time"), before)
    shutil.rmtree(path)
    write_days(home, lines()[::2])
    same(daily.counted(rows, q, "event_time"), at_once(home, q))


def test_a_day_is_not_kept_if_its_files_changed_while_it_was_read(home: Path) -> None:
    late = {"event_time": START + timedelta(days=1, hours=3), "path": "/late"}

    class Meanwhile(DeltaReader):
        """A line comes between the look at the files and the read."""

        def arrow(self, q: Query) -> pa.Table:
            if not added:
                added.append(DeltaTable(path).version())
                add(home, late)
            return super().arrow(q)

    added, path, q = list[int](), str(home / "tables" / TABLE), wanted(START)
    before = at_once(home, q)
    rows = Rows(Meanwhile(home))
    same(daily.counted(rows, q, "event_time"), at_once(home, q))
    DeltaTable(path).restore(added[0])
    same(daily.counted(rows, q, "event_time"), before)


def test_few_distinct_values_are_counted_over_days(home: Path) -> None:
    add(
        home,
        {"event_time": START + timedelta(days=3), "visitor_id": None},
        {"event_time": END, "visitor_id": ""},
    )
    where = [Where("event_time", ">=", START + timedelta(hours=9)), Where("bot", "=", False)]
    people = distinct_values("visitor_id", Where("bot", "=", False))
    for more in ({"requests": count()}, {}):
        q = query(TABLE, {**BY, "people": people, **more}, where, group_by=list(BY))
        rows = Rows(DeltaReader(home))
        for _ in range(2):
            same(daily.counted(rows, q, "event_time", few=True), at_once(home, q))
    assert len(rows.unions.counts.entries.items()) == DAYS + 1


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Europe/Berlin"])
@pytest.mark.parametrize("seconds", [3600, 86_400])
def test_bins_of_a_zone(home: Path, zone: str, seconds: int) -> None:
    start = START + timedelta(hours=3)
    bins = Bins(seconds, zone, shifts(zone, seconds, start, END)).of("event_time")
    q = query(
        TABLE,
        {"bin": bins, "site": "site", "n": count(), "visitors": distinct_values("visitor_id")},
        [Where("event_time", ">=", start)],
        group_by=["bin", "site"],
    )
    rows = Rows(DeltaReader(home))
    for few in (False, True, False):
        same(daily.counted(rows, q, "event_time", few=few), at_once(home, q))


def test_two_viewers_with_different_rights_get_their_own(home: Path) -> None:
    cache, q = UnionCache(), wanted(START)
    own: dict[str, pd.DataFrame] = {}
    for right in (EVERYTHING, Right.of("viewer", ["a.example"]), Right.of("viewer", ["b.example"])):
        for _ in range(2):
            reader = permitted(DeltaReader(home), right)
            asked = reader.permitted(q) if isinstance(reader, Permitted) else q
            own[right.about] = daily.counted(Rows(reader, cache), q, "event_time")
            same(own[right.about], at_once(home, asked))
    sums = [int(each["requests"].sum()) for each in own.values()]
    assert sums[0] == sums[1] + sums[2] and min(sums) > 0


FALLBACKS = {
    "a median": lambda q: query(TABLE, {**BY, "n": median("bytes")}, q.where, group_by=list(BY)),
    "many distinct values": lambda q: query(
        TABLE, {**BY, "n": distinct_values("visitor_id")}, q.where, group_by=list(BY)
    ),
    "no group": lambda q: query(TABLE, COUNTS, q.where),
    "no beginning": lambda q: query(TABLE, {**BY, **COUNTS}, group_by=list(BY)),
    "one day": lambda q: wanted(START, START + timedelta(days=1)),
    "two tables": lambda q: query(
        TABLE,
        {**BY, **COUNTS},
        [*q.where, Exists("silver/sessions", (("visitor_id", "=", "visitor_id"),))],
        group_by=list(BY),
    ),
    "nothing in the range": lambda q: wanted(END + timedelta(days=9)),
}


@pytest.mark.parametrize("changed", FALLBACKS.values(), ids=FALLBACKS)
def test_other_queries_are_read_at_once(home: Path, changed: Callable[[Query], Query]) -> None:
    q = changed(wanted(START))
    rows = Rows(DeltaReader(home))
    same(daily.counted(rows, q, "event_time"), at_once(home, q))
    assert not rows.unions.counts.entries.items()


def test_a_line_of_a_wrong_year_is_counted_without_a_thousand_days(home: Path) -> None:
    add(home, {"event_time": datetime(1999, 1, 1, tzinfo=UTC), "path": "/old"})
    q = wanted(datetime(1990, 1, 1, tzinfo=UTC))
    rows = Rows(DeltaReader(home))
    same(daily.counted(rows, q, "event_time"), at_once(home, q))
    assert not rows.unions.counts.entries.items()


@pytest.mark.parametrize("filters", [(), ("country!=ZZ",), ("path^/a",), ("entry_page=/",), ("network=",)])
@pytest.mark.parametrize("site", [None, "b.example"])
def test_figures_of_silver_are_the_same_by_day(
    home: Path, filters: tuple[str, ...], site: str | None
) -> None:
    readers: tuple[Reader, ...] = (DeltaReader(home), Unknown(home))
    both = tuple(map(Rows, readers))
    for hours in (0, 1, 25):
        selection = Selection(site, START + timedelta(hours=hours), None, filters=filters_of(filters))
        for figure in (
            lambda rows: bots.pretenders(rows, selection, 300),  # noqa: B023
            lambda rows: errors.referrers(rows, selection),  # noqa: B023
            lambda rows: searches.downloads(rows, selection, ("css",), 50),  # noqa: B023
            lambda rows: suspected.people(rows, selection),  # noqa: B023
            lambda rows: bots.over_time(rows, selection, 900),  # noqa: B023
        ):
            left, right = map(figure, both)
            pd.testing.assert_frame_equal(left, right, check_dtype=False)


def test_days_are_counted_before_somebody_asks(home: Path) -> None:
    # Unions, which need much memory, do not push out what is counted.
    reader, cache = Watching(DeltaReader(home)), UnionCache(Recent(0))

    ahead.count(reader, cache, ("css",))

    rows, selection = Rows(reader, cache), Selection(start=START)
    reader.read.clear()
    known = (
        bots.pretenders(rows, selection, 300),
        errors.referrers(rows, selection),
        searches.downloads(rows, selection, ("css",), 50),
        suspected.people(rows, selection),
    )
    assert all(len(each) for each in known) and not reader.read


def test_nothing_is_counted_where_there_is_nothing(tmp_path: Path) -> None:
    cache = UnionCache()
    ahead.count(DeltaReader(tmp_path), cache, ())
    assert not cache.counts.entries.items()
