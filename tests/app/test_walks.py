"""Funnels, paths and retention equal a brute-force recount, on random walks and through Delta tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from random import Random

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.app.brute import Walk, deepest, depth
from tidemark.engine import sketches
from tidemark.figures import funnels, paths, retention, walks
from tidemark.figures.calendar import first_day
from tidemark.figures.declared import Definition, Step, duration
from tidemark.figures.extents import Extent
from tidemark.figures.periods import Every
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Filter, Selection, SelectionError
from tidemark.figures.walks import Walks, matches, ordered

START = datetime(2026, 11, 2, tzinfo=UTC)
PAGES = ("/", "/a", "/b", "/cart", "/cart/pay", "/done")
PATTERNS = ("/cart*", "/cart*", "/done")
STEPS = (Step("cart", "/cart*"), Step("pay", "/cart*"), Step("done", "/done"))
HOUR = 3600
TIME = pa.timestamp("us", "UTC")


def random_walks(seed: int, number: int = 60) -> list[Walk]:
    random = Random(seed)
    visits = []
    for _ in range(number):
        at, walk = random.randrange(40 * HOUR), []
        for _ in range(random.randint(1, 9)):
            walk.append((at, random.choice(PAGES)))
            at += random.choice((0, 30, HOUR, 9 * HOUR))
        visits.append(sorted(walk))
    return visits


def of(visits: Sequence[Walk]) -> Walks:
    names = sorted({path for walk in visits for _, path in walk})
    rows = [(number, at, names.index(path)) for number, walk in enumerate(visits) for at, path in walk]
    walk, time, path = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Walks(walk, time * 1_000_000, path, names, len(visits))


@pytest.mark.parametrize("within", [None, 0, 30, HOUR, 10 * HOUR])
@pytest.mark.parametrize("end", [None, 20 * HOUR])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_funnel_counts_the_deepest_chain_over_all_starts(
    seed: int, within: int | None, end: int | None
) -> None:
    generated = random_walks(seed)
    longest = None if within is None else timedelta(seconds=within)
    result = funnels.taken(of(generated), STEPS, longest, None if end is None else end * 1_000_000)
    expected = [depth(walk, PATTERNS, within, end) for walk in generated]
    assert result.reached.tolist() == expected
    assert result.counts == [sum(d > k for d in expected) for k in range(3)]
    assert within is not None or max(expected) == 3


def test_a_pageview_is_one_step_only_and_times_run_from_the_first() -> None:
    result = funnels.taken(
        of([[(0, "/cart"), (40, "/cart/pay"), (100, "/done")], [(0, "/cart"), (60, "/done")]]), STEPS
    )
    table = result.table()
    assert table["count"].tolist() == [2, 1, 1]
    assert table["median_seconds"].tolist() == [0, 40, 100]
    assert table["of_previous"].tolist() == [1, 0.5, 1]


def test_who_stops_goes_somewhere_else_or_nowhere() -> None:
    generated = of(
        [
            [(0, "/cart"), (1, "/a"), (2, "/b")],
            [(0, "/cart"), (1, "/a")],
            [(0, "/a"), (1, "/cart")],
            [(0, "/cart"), (1, "/cart/pay"), (2, "/a")],
            [(0, "/b")],
        ]
    )
    result = funnels.taken(generated, STEPS)
    assert funnels.left_to(generated, result, 0).values.tolist() == [["/a", 2], [None, 1]]
    assert funnels.left_to(generated, result, 1).values.tolist() == [["/a", 1]]


def test_a_funnel_of_nothing_has_no_counts() -> None:
    nothing = Walks(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), [], 0)
    assert funnels.taken(nothing, STEPS).counts == [0, 0, 0]
    assert paths.through(paths.places(nothing), []).levels[0].empty


@pytest.mark.parametrize(
    "pattern, path, is_match",
    [
        ("/a*", "/a/b/c", True),
        ("/a*", "/A", False),
        ("*/pay", "/cart/pay", True),
        ("/a.c", "/abc", False),
        ("/a", "/a/", False),
        ("*", "", True),
        ("/a*c", "/a\nc", True),
    ],
)
def test_patterns(pattern: str, path: str, is_match: bool) -> None:
    assert matches(pattern, path) is is_match


def test_a_funnel_has_two_to_eight_steps_and_a_duration() -> None:
    for number in (1, 9):
        with pytest.raises(SelectionError, match="2 to 8 steps"):
            Definition(STEPS[:1] * number)
    assert duration("24h") == timedelta(hours=24)
    with pytest.raises(SelectionError, match="no duration"):
        duration("soon")


@pytest.mark.parametrize(
    "path, folder",
    [
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("/a/b", "/a/*"),
        ("/a/b/c", "/a/*"),
        ("//a", "//a"),
        ("", ""),
        ("a/b", "a/b"),
    ],
)
def test_pages_of_a_folder_are_one_step(path: str, folder: str) -> None:
    assert paths.folder(path) == folder
    items = [[(0, path), (1, path), (2, "/end")]]
    folded = paths.Folders()(of(items))
    assert paths.through(paths.places(folded), folded.paths).levels[0]["path"].tolist() == [folder]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("page", [None, "/cart"])
def test_paths_equal_a_walk_by_hand_and_lose_nobody(page: str | None, backward: bool) -> None:
    generated = random_walks(7, 200)
    begins = None if page is None else walks.Matching([page])
    result = paths.through(paths.places(of(generated), begins, backward=backward), of(generated).paths, 3)
    lines = []
    for walk in generated:
        visits = [path for path, _ in groupby(path for _, path in walk)]
        if page is not None and page not in visits:
            continue
        first = 0 if page is None else visits.index(page)
        lines.append(visits[first::-1] if backward else visits[first:])
    for level, sheet in enumerate(result.levels):
        counts = Counter(line[level] for line in lines if len(line) > level)
        most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ended = sum(len(line) == level for line in lines)
        other = sum(count for _, count in most[3:])
        expected = [*most[:3], *([("other", other)] if other else []), *([("left", ended)] if ended else [])]
        assert list(sheet.itertuples(index=False, name=None)) == expected
    links = result.links
    for level in range(1, paths.LEVELS - 1):
        came = (
            links[links["level"] == level - 1].groupby("target")["count"].sum().drop("left", errors="ignore")
        )
        went = links[links["level"] == level].groupby("source")["count"].sum()
        assert came.to_dict() == went.to_dict()


def write(home: Path, table: str, rows: pa.Table) -> None:
    write_deltalake(str(home / "tables" / table), rows, mode="append")


def pageviews(generated: Sequence[Walk]) -> Iterator[dict[str, object]]:
    for number, walk in enumerate(generated):
        for at, path in walk:
            yield {
                "site": "shop", "visitor_id": f"v{number:03}", "event_time": START + timedelta(seconds=at),
                "path": path, "query": None, "referrer": None, "pageview": True, "bot": False, "channel": "direct",
                "country": "DE" if number % 2 else "FR", "device": "desktop",
            }  # fmt: skip


def requests_table(generated: Sequence[Walk]) -> pa.Table:
    kinds = {"event_time": TIME, "pageview": pa.bool_(), "bot": pa.bool_()}
    rows = list(pageviews(generated))
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in rows[0]])
    shuffled = Random(1).sample(rows, len(rows))
    return pa.Table.from_pylist(shuffled, schema)


CHANNELS = ("direct", "email", "referral")


def channel_of(walk: Walk, place: int) -> str:
    """Of the session in which a pageview lies; these sessions have gaps below an hour."""
    while place and walk[place][0] - walk[place - 1][0] < HOUR:
        place -= 1
    return CHANNELS[walk[place][0] % 3]


def next_page(walk: Walk, chain: Sequence[int]) -> str | None:
    """The page that was viewed right after the last step, within ten hours of the first."""
    after = chain[-1] + 1
    return walk[after][1] if after < len(walk) and walk[after][0] - walk[chain[0]][0] <= 10 * HOUR else None


def sessions_table(generated: Sequence[Walk]) -> pa.Table:
    rows = []
    for number, walk in enumerate(generated):
        for place, (at, _) in enumerate(walk):
            if place and at - walk[place - 1][0] < HOUR:
                rows[-1]["end_time"] = START + timedelta(seconds=at)
                continue
            start = START + timedelta(seconds=at)
            rows.append(
                {"session_id": f"s{len(rows)}", "site": "shop", "visitor_id": f"v{number:03}", "start_time": start,
                 "end_time": start, "channel": channel_of(walk, place), "country": "DE" if number % 2 else "FR",
                 "device": "desktop"}
            )  # fmt: skip
    kinds = {"start_time": TIME, "end_time": TIME}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in rows[0]])
    return pa.Table.from_pylist(Random(2).sample(rows, len(rows)), schema)


def test_funnels_read_silver_and_may_pass_the_end_of_the_range(tmp_path: Path) -> None:
    generated = random_walks(11, 120)
    write(tmp_path, "silver/requests", requests_table(generated))
    write(tmp_path, "silver/sessions", sessions_table(generated))
    rows = Rows(DeltaReader(tmp_path))
    definition = Definition(STEPS, within=timedelta(hours=10))
    selection = Selection("shop", START, START + timedelta(hours=20))
    result = funnels.funnel(rows, selection, definition)
    expected = [depth(walk, PATTERNS, 10 * HOUR, 20 * HOUR) for walk in generated]
    assert result.counts == [sum(d > k for d in expected) for k in range(3)]
    by_country = funnels.by(rows, selection, definition, result, "country").set_index("country")
    assert by_country.loc["DE"].tolist() == [sum(d > k for d in expected[1::2]) for k in range(3)]
    taken = [deepest(walk, PATTERNS, 10 * HOUR, 20 * HOUR) for walk in generated]
    by_channel = funnels.by(rows, selection, definition, result, "channel").set_index("channel")
    for channel in CHANNELS:
        depths = [
            len(c)
            for walk, c in zip(generated, taken, strict=True)
            if c and channel_of(walk, c[0]) == channel
        ]
        assert by_channel.loc[channel].tolist() == [sum(d > k for d in depths) for k in range(3)]
    again, every_lost = funnels.with_lost(rows, selection, definition)
    assert again.counts == result.counts
    assert funnels.by(rows, selection, definition, again, "channel").set_index("channel").equals(by_channel)
    for step, lost in enumerate(every_lost):
        ends = Counter(
            next_page(walk, c) for walk, c in zip(generated, taken, strict=True) if len(c) == step + 1
        )
        assert dict(lost.itertuples(index=False, name=None)) == ends
        assert {None, "/b"} <= set(ends)
    of_france = funnels.funnel(rows, selection.having(Filter("country", "is", ("FR",))), definition)
    assert of_france.counts == by_country.loc["FR"].tolist()


def test_sessions_steps_are_read_and_filtered(tmp_path: Path) -> None:
    generated = random_walks(12, 50)
    kind = pa.list_(pa.struct([("time", TIME), ("path", pa.string())]))
    steps = [
        [{"time": START + timedelta(seconds=at), "path": path} for at, path in walk] for walk in generated
    ]
    columns = {
        "session_id": [f"s{n}" for n in range(50)], "site": ["shop"] * 50,
        "start_time": pa.array([walk[0]["time"] for walk in steps], TIME), "steps": pa.array(steps, kind),
    }  # fmt: skip
    write(tmp_path, "silver/session_steps", pa.table(columns))
    own = {name: columns[name] for name in ("session_id", "site", "start_time")}
    sessions = pa.table({**own, "channel": ["direct", "referral"] * 25, "country": ["DE"] * 50})
    write(tmp_path, "silver/sessions", sessions.take(pa.array(np.random.default_rng(1).permutation(50))))
    rows = Rows(DeltaReader(tmp_path))
    definition = Definition(STEPS, visitor=False)
    expected = [depth(walk, PATTERNS, None, None) for walk in generated]
    result = funnels.funnel(rows, Selection(), definition)
    assert result.counts == [sum(d > k for d in expected) for k in range(3)]
    split = funnels.by(rows, Selection(), definition, result, "channel").set_index("channel")
    assert split.loc["referral"].tolist() == [sum(d > k for d in expected[1::2]) for k in range(3)]
    direct = Selection(filters=(Filter("channel", "is", ("direct",)),))
    assert funnels.funnel(rows, direct, definition).counts == split.loc["direct"].tolist()
    assert paths.paths(rows, Selection()).levels[0]["count"].sum() == 50


def visits(seed: int) -> list[tuple[date, str, str]]:
    """Days, sites and visitors; a third of the days have nobody."""
    random = Random(seed)
    days = [START.date() + timedelta(days=n) for n in range(40) if n % 3]
    return [
        (random.choice(days), random.choice(("shop", "blog")), f"v{random.randrange(40)}") for _ in range(300)
    ]


def cohorts(actual: Sequence[tuple[date, str, str]], by: Every) -> dict[date, dict[date, int]]:
    came: dict[tuple[str, str], set[date]] = {}
    for day, site, visitor in actual:
        came.setdefault((site, visitor), set()).add(first_day(day, by))
    counts: dict[date, Counter[date]] = {}
    for periods in came.values():
        counts.setdefault(min(periods), Counter()).update(periods)
    return {cohort: dict(row) for cohort, row in counts.items()}


def sketch(members: Sequence[str]) -> bytes:
    updated = datasketches.update_theta_sketch(20)
    for member in members:
        updated.update(member)
    return bytes(updated.compact().serialize())


@pytest.mark.parametrize("by", ["day", "week", "month"])
@pytest.mark.parametrize("filters", [(), (Filter("country", "is", ("DE",)),)])
def test_retention_equals_sets_of_visitors(tmp_path: Path, by: Every, filters: tuple[Filter, ...]) -> None:
    every = visits(3)
    random = Random(4)
    hours = [(day, random.randrange(24), site, visitor) for day, site, visitor in every]
    rows: dict[tuple[str, datetime], list[str]] = {}
    for day, hour, site, visitor in hours:
        start = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
        rows.setdefault((site, start), []).append(visitor)
    keys = list(rows)
    write(
        tmp_path,
        "gold/visitor_hours",
        pa.table(
            {
                "site": [site for site, _ in keys],
                "window_start": pa.array([start for _, start in keys], TIME),
                "visitors": [len(set(rows[key])) for key in keys],
                "visitors_sketch": [sketch(rows[key]) for key in keys],
                "updated_at": pa.array([START] * len(keys), TIME),
            }
        ),
    )
    lines = [(site, start, visitor) for (site, start), result in rows.items() for visitor in result]
    write(
        tmp_path,
        "silver/requests",
        pa.table(
            {
                "site": [site for site, _, _ in lines], "event_time": pa.array([start for _, start, _ in lines], TIME),
                "visitor_id": [visitor for _, _, visitor in lines], "bot": [False] * len(lines),
                "country": ["DE" if visitor < "v2" else "FR" for _, _, visitor in lines],
            }
        ),
    )  # fmt: skip
    kept = [row for row in every if not filters or row[2] < "v2"]
    expected = cohorts(kept, by)
    newest = START + timedelta(days=45)
    result = retention.retention(
        Rows(DeltaReader(tmp_path)), Selection(filters=filters), by, Extent(START, newest)
    )
    assert result.share == 1.0
    assert result.open_from == result.periods[-1] == first_day(newest.date(), by)
    for number, cohort in enumerate(result.periods):
        counts = expected.get(cohort, {})
        assert result.returned(number) == [counts.get(period, 0) for period in result.periods[number:]]
    table = result.new_and_returning()
    visitors = {p: len({row[1:] for row in kept if first_day(row[0], by) == p}) for p in result.periods}
    assert (table["new"] + table["returning"]).tolist() == list(visitors.values())
    assert result.is_open(0, len(result.periods) - 1)


def test_retention_beyond_a_full_sketch_says_its_error(tmp_path: Path) -> None:
    """3.2 million visitors over three days, in hours of which some have more than a sketch keeps."""
    people = np.random.default_rng(5).integers(1, 2**63 - 1, 3_200_000, dtype=np.uint64)
    first, second, third = (
        people[:2_500_000],
        np.concatenate((people[:800_000], people[2_500_000:2_900_000])),
        np.concatenate((people[600_000:1_000_000], people[2_800_000:])),
    )
    hours = [first[:1_800_000], first[1_200_000:], second, third[:300_000], third[200_000:]]
    starts = [START + timedelta(hours=hour) for hour in (3, 9, 30, 50, 60)]
    groups = np.repeat(np.arange(len(hours)), [len(hour) for hour in hours])
    kept = sketches.unite(groups, np.concatenate(hours), np.full(len(hours), sketches.WHOLE)).limited()
    table = {
        "site": ["shop"] * len(hours), "window_start": pa.array(starts, TIME), "visitors": kept.counts(),
        "visitors_sketch": kept.to_bytes(), "updated_at": pa.array([START] * len(hours), TIME),
    }  # fmt: skip
    write(tmp_path, "gold/visitor_hours", pa.table(table))
    extent = Extent(START, START + timedelta(days=5))

    result = retention.retention(Rows(DeltaReader(tmp_path)), Selection("shop"), "day", extent)

    truth = [[2_500_000, 800_000, 400_000], [400_000, 100_000], [300_000]]
    for cohort, row in enumerate(truth):
        for count, true in zip(result.returned(cohort), row, strict=False):
            assert 0 < abs(count - true) < 3 * result.error(true), (cohort, count, true)
    assert result.share < 0.6 and result.error(2_500_000) < 0.001 * 2_500_000
    assert result.new_and_returning()["new"].iloc[3:].tolist() == [0, 0, 0]


@pytest.mark.parametrize("latest", [9, 2**60], ids=["one number", "three"])
def test_rows_are_in_order_of_owner_time_and_place(latest: int) -> None:
    chance = np.random.default_rng(5)
    owner, time, place = chance.integers(0, 9, 500), chance.integers(0, 9, 500), chance.integers(0, 9, 500)
    time[0] = latest

    order = ordered(owner, time, place)

    rows = list(zip(owner[order], time[order], place[order], strict=True))
    assert sorted(order) == list(range(500))
    assert rows == sorted(rows)
