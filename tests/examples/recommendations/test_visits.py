"""Sessions that join and counts that go down, without a stream."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from examples.kit.load import Load
from examples.recommendations.check import differences, recount
from examples.recommendations.example import views
from examples.recommendations.generator import events
from examples.recommendations.job import CO_VISITS, SESSIONS, add_counts, merge_sessions
from examples.recommendations.visits import (
    MOST_ITEMS,
    Session,
    also_viewed,
    co_visits,
    join,
    sessionize,
)

GAP = timedelta(minutes=30)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def session(start: float, end: float, *items: str, views: int = 0, visitor: str = "ann") -> Session:
    return Session(visitor, at(start), at(end), views or len(items), items)


def pairs_by_hand(sessions: list[Session]) -> Counter[tuple[str, str]]:
    return Counter(pair for s in sessions for pair in product(s.items, s.items))


def test_a_late_view_joins_two_sessions() -> None:
    result = join([session(0, 10, "a", "b"), session(50, 60, "b", "c"), session(30, 30, "d")], GAP)
    assert result == [session(0, 60, "a", "b", "c", "d", views=5)]


def test_a_pause_of_the_gap_parts_sessions_and_visitors_are_apart() -> None:
    apart = [session(0, 10, "a"), session(40, 41, "b"), session(0, 41, "c", visitor="bob")]
    assert sorted(join(apart, GAP), key=lambda s: s.items) == apart


def test_a_short_session_within_a_long_one_does_not_hide_its_end() -> None:
    assert join([session(0, 50, "a"), session(10, 11, "b"), session(70, 71, "c")], GAP) == [
        session(0, 71, "a", "b", "c")
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_and_grouping_of_views_do_not_matter(seed: int) -> None:
    random = Random(seed)
    single = [session(m := random.uniform(0, 600), m, random.choice("abcdef")) for _ in range(60)]
    kept: list[Session] = []
    rest = list(single)
    while rest:
        count = random.randint(1, 9)
        kept, rest = join([*kept, *rest[:count]], GAP), rest[count:]
    assert sorted(kept, key=lambda s: s.start) == join(single, GAP)


def test_merging_writes_what_changed_and_deletes_what_is_gone() -> None:
    def table(*sessions: Session) -> pa.Table:
        return pa.Table.from_pylist(
            [
                {"visitor": s.visitor, "start_time": s.start, "end_time": s.end, "views": s.views,
                 "items": list(s.items), "updated_at": NOON}
                for s in sessions
            ],
            SESSIONS.arrow_schema,
        )  # fmt: skip

    there = table(session(0, 10, "a"), session(50, 60, "b"), session(0, 1, "z", visitor="bob"))
    change = merge_sessions(there, table(session(30, 30, "c")).drop_columns("updated_at"), GAP)
    assert change.rows.select(["visitor", "start_time", "end_time", "items"]).to_pylist() == [
        {"visitor": "ann", "start_time": at(0), "end_time": at(60), "items": ["a", "b", "c"]}
    ]
    assert change.deleted is not None
    assert change.deleted["start_time"].to_pylist() == [at(50)]


def test_a_join_of_sessions_takes_counts_away(spark: SparkSession) -> None:
    before = [session(0, 10, "a", "b"), session(50, 60, "a", "b", "c")]
    after = join([*before, session(30, 30, "a")], GAP)
    rows = [
        *(Row(items=list(s.items), _change_type="delete") for s in before[1:]),
        Row(items=list(before[0].items), _change_type="update_preimage"),
        *(Row(items=list(s.items), _change_type="update_postimage") for s in after),
    ]
    actual = {(r.item, r.also): r.sessions for r in co_visits(spark.createDataFrame(rows)).collect()}
    wanted = pairs_by_hand(after)
    wanted.subtract(pairs_by_hand(before))
    assert actual == {pair: n for pair, n in wanted.items() if n}
    assert actual["a", "b"] == -1


def test_a_session_of_very_many_items_says_nothing(spark: SparkSession) -> None:
    rows = [
        Row(items=[f"i{n:03}" for n in range(size)], _change_type="insert")
        for size in (MOST_ITEMS, MOST_ITEMS + 1)
    ]
    result = co_visits(spark.createDataFrame(rows))
    assert result.count() == MOST_ITEMS**2
    assert {row.sessions for row in result.collect()} == {1}


def test_a_count_that_reaches_nothing_goes() -> None:
    def counts(*rows: tuple[str, str, int]) -> pa.Table:
        return pa.table(dict(zip(("item", "also", "sessions"), zip(*rows, strict=True), strict=True)))

    change = add_counts(
        counts(("a", "b", 2), ("a", "c", 1)), counts(("a", "b", -1), ("a", "c", -1), ("d", "e", 3))
    )
    assert change.rows.select(["item", "also", "sessions"]).to_pylist() == [
        {"item": "a", "also": "b", "sessions": 1},
        {"item": "d", "also": "e", "sessions": 3},
    ]
    assert change.deleted is not None
    assert change.deleted.select(CO_VISITS.key).to_pylist() == [{"item": "a", "also": "c"}]


def test_sessions_of_a_batch(spark: SparkSession) -> None:
    rows = [
        ("ann", "b", at(0)),
        ("ann", "a", at(5)),
        ("ann", "a", at(5)),
        ("ann", "c", at(35)),
        ("bob", "a", at(6)),
    ]
    frame = spark.createDataFrame(rows, "visitor string, item string, event_time timestamp")
    result = sessionize(frame, GAP).orderBy("visitor", "start_time").toArrow().to_pylist()
    assert [(r["visitor"], r["start_time"], r["end_time"], r["views"], r["items"]) for r in result] == [
        ("ann", at(0), at(5), 3, ["a", "b"]),
        ("ann", at(35), at(35), 1, ["c"]),
        ("bob", at(6), at(6), 1, ["a"]),
    ]


def test_a_popular_item_does_not_go_with_everything() -> None:
    pairs = {("hit", "rare"): 5, ("hit", "other"): 5, ("rare", "other"): 4}
    alone = {"hit": 100, "rare": 5, "other": 6}
    counts = [(a, a, n) for a, n in alone.items()]
    counts += [(a, b, n) for (x, y), n in pairs.items() for a, b in ((x, y), (y, x))]
    assert [also for also, _ in also_viewed(counts, 2)["rare"]] == ["other", "hit"]


def test_the_recount_agrees_with_joined_sessions_and_notices_a_lost_view() -> None:
    load = Load(seed=3, rate=200, seconds=10)
    generated = list(views(load))
    moments = [datetime.fromtimestamp(time, UTC) for time, _, _ in generated]
    single = [Session(v, m, m, 1, (i,)) for m, (_, v, i) in zip(moments, generated, strict=True)]
    by_hand = pairs_by_hand(join(single, GAP))
    assert differences(by_hand, recount(generated, GAP)) == []
    assert differences(recount(generated[1:], GAP), recount(generated, GAP))
    assert max(by_hand.values()) > 10


def test_equal_seeds_give_equal_views_and_others_do_not() -> None:
    first, again, other = (list(events(Load(seed=seed, rate=100, seconds=5))) for seed in (1, 1, 2))
    assert first == again != other
