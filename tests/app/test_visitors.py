from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import datasketches
import numpy as np
import pyarrow as pa
import pytest

from app.dashboard import ahead
from tests.app import tables
from tests.app.tables import Request
from tidemark.figures.bins import Bins
from tidemark.figures.query import Query, Where
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.sketches import unite
from tidemark.figures.unions import UnionCache
from tidemark.figures.visitors import Grouping, distinct

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def crowd(seed: int, days: int = 4, number: int = 3000) -> list[Request]:
    pick = random.Random(seed)
    return [
        Request(
            NOON - timedelta(seconds=pick.randrange(days * 86_400)),
            f"v{pick.randrange(400)}",
            pick.choice(["DE", "US", "ZZ"]),
            site=pick.choice(["a", "b"]),
            bot=pick.random() < 0.1,
        )
        for _ in range(number)
    ]


def people(requests: list[Request], **wanted: object) -> int:
    fits = [r for r in requests if not r.bot and all(getattr(r, k) == v for k, v in wanted.items())]
    return len({(r.site, r.visitor) for r in fits})


def test_visitors_of_a_range_are_distinct_over_windows_and_added_over_sites(tmp_path: Path) -> None:
    requests = crowd(1)
    tables.write_gold(tmp_path, requests)
    rows = Rows(DeltaReader(tmp_path))
    start = NOON - timedelta(days=2, hours=3)
    inside = [r for r in requests if r.time >= start]
    where = (Where("window_start", ">=", start),)

    result = distinct(rows, "gold/visitors_by_country", where, Grouping(("country",)))
    total = distinct(rows, "gold/traffic", where)
    of_a = distinct(rows, "gold/traffic", (*where, Where("site", "=", "a")))

    assert dict(result.itertuples(index=False)) == {c: people(inside, country=c) for c in ("DE", "US", "ZZ")}
    assert total["visitors"].item() == people(inside)
    assert of_a["visitors"].item() == people(inside, site="a")


@pytest.mark.parametrize("seconds", [900, 6 * 3600, 7 * 86_400])
def test_visitors_of_time_bins_shorter_and_longer_than_a_day(tmp_path: Path, seconds: int) -> None:
    requests = crowd(2, days=9)
    tables.write_gold(tmp_path, requests)

    result = distinct(Rows(DeltaReader(tmp_path)), "gold/traffic", (), Grouping(bins=Bins(seconds)))

    wanted: dict[datetime, list[Request]] = {}
    for request in requests:
        wanted.setdefault(tables.floor(request.time, seconds), []).append(request)
    assert {b.to_pydatetime(): n for b, n in result.itertuples(index=False)} == {
        b: people(rs) for b, rs in wanted.items()
    }


def test_a_revised_day_is_united_again_and_the_others_are_kept(tmp_path: Path) -> None:
    requests = crowd(3)
    tables.write_gold(tmp_path, requests)
    cache = UnionCache()
    rows = Rows(DeltaReader(tmp_path), cache)
    assert distinct(rows, "gold/traffic", ())["visitors"].item() == people(requests)
    before = {key: value for key, (_, value) in cache.entries.items()}

    late = Request(NOON - timedelta(days=2), "someone new", site="a")
    tables.write_gold(tmp_path, [*requests, late])

    assert distinct(rows, "gold/traffic", ())["visitors"].item() == people([*requests, late])
    kept = [key for key, (_, value) in cache.entries.items() if before.get(key) is value]
    assert len(kept) == len(before) - 2  # all but the revised day and the merged earlier days


def test_days_between_revised_ones_are_not_read_again(tmp_path: Path) -> None:
    requests = crowd(6, days=9)
    tables.write_gold(tmp_path, requests)
    reader = Recording(tmp_path)
    rows = Rows(reader)
    start = NOON - timedelta(days=8)
    distinct(rows, "gold/traffic", (Where("window_start", ">=", start),))
    reader.bounds.clear()

    # Another hour begins: a bound within the first day, and a line of the last one.
    moved = start + timedelta(hours=1)
    newest = [*requests, Request(NOON, "someone new", site="a")]
    tables.write_gold(tmp_path, newest)
    result = distinct(rows, "gold/traffic", (Where("window_start", ">=", moved),))

    assert result["visitors"].item() == people([r for r in newest if r.time >= moved])
    day = timedelta(days=1)
    first, last = (moment.replace(hour=0) for moment in (start, NOON))
    assert reader.bounds == [(first, first + day), (last, last + day)]


class Recording(DeltaReader):
    """Records the first and the last bound of time of its long reads."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.bounds: list[tuple[datetime, datetime]] = []

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        *_, lower, upper = (each.value for each in q.where if isinstance(each, Where))
        self.bounds.append((lower, upper))
        return super().coded(q, names)


def test_unions_take_the_bytes_of_distinct_hashes(tmp_path: Path) -> None:
    daily = [
        Request(NOON - timedelta(hours=hour), f"v{number}") for number in range(200) for hour in range(72)
    ]
    tables.write_gold(tmp_path, daily)
    cache = UnionCache()

    assert distinct(Rows(DeltaReader(tmp_path), cache), "gold/traffic", ())["visitors"].item() == 200

    for _, (_, value) in cache.entries.items():
        assert [len(union.given) for union in value.values()] == [200]


def test_bins_within_days_are_remembered_once(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, crowd(7))
    cache = UnionCache()
    rows = Rows(DeltaReader(tmp_path), cache)

    result = [distinct(rows, "gold/traffic", (), Grouping(bins=Bins(3600))) for _ in range(2)]

    assert result[0].equals(result[1])
    # Of a table, its columns and a day, and none of several days.
    assert {len(key) for key, _ in cache.entries.items()} == {3}


def test_no_rows_are_no_visitors(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, crowd(4, number=10))
    where = (Where("site", "=", "nowhere"),)

    rows = Rows(DeltaReader(tmp_path))
    assert distinct(rows, "gold/traffic", where)["visitors"].item() == 0
    by = distinct(rows, "gold/traffic", where, Grouping(bins=Bins(60)))
    assert by.empty


def sketch(numbers: range, lg: int) -> datasketches.compact_theta_sketch:
    update = datasketches.update_theta_sketch(lg)
    for number in numbers:
        update.update(number)
    return update.compact()


def test_full_sketches_give_the_estimate_of_the_library() -> None:
    sketches = [sketch(range(i * 3000, i * 3000 + 9000), 10) for i in range(6)] + [sketch(range(5), 10)]
    union = datasketches.theta_union(20)
    for one in sketches:
        union.update(one)

    blobs = pa.chunked_array(
        [[s.serialize() for s in sketches[:3]], [None], [s.serialize() for s in sketches[3:]]]
    )
    result = unite(blobs, np.zeros(8, np.int64))

    assert result[0].count() == pytest.approx(union.get_result().get_estimate(), rel=1e-12)


def test_past_days_are_united_before_somebody_asks_and_give_the_same(tmp_path: Path) -> None:
    requests = crowd(5)
    tables.write_gold(tmp_path, requests)
    reader, cache = DeltaReader(tmp_path), UnionCache()

    ahead.unite(reader, cache)

    # Of a table, its columns and a day; unions of several days have no single one.
    days = {key for key, _ in cache.entries.items() if len(key) == 3}
    everything = distinct(Rows(reader, cache), "gold/traffic", ())
    assert everything["visitors"].item() == people(requests)
    assert days == {key for key, _ in cache.entries.items() if len(key) == 3}, "a day was united again"


def test_nothing_is_united_where_there_is_nothing(tmp_path: Path) -> None:
    cache = UnionCache()

    ahead.unite(DeltaReader(tmp_path), cache)

    assert not cache.entries.items()
