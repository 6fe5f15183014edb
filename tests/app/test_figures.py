"""Figures with and without filters, from gold and from silver, equal a recount of the same rows with pandas."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from app.dashboard.figures import (
    bots,
    countries,
    drill,
    errors,
    latency,
    overview,
    pages,
    quantiles,
    sessions,
    suspected,
)
from app.dashboard.figures.query import Query, query
from app.dashboard.figures.reader_delta import DeltaReader
from app.dashboard.figures.rows import Direct, Rows
from app.dashboard.figures.selection import Selection, filters_of
from tests.app import lakehouse
from tests.app.lakehouse import START
from tidemark.engine.latency import bounds

Scene = tuple[Rows, pd.DataFrame]
Hours = tuple[float, float] | None


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    home = tmp_path_factory.mktemp("home")
    lines = lakehouse.build(home, lakehouse.requests())
    return Direct(DeltaReader(home)), lines


def select(*filters: str, hours: Hours, site: str | None = None, **more: bool) -> Selection:
    start, end = (None, None) if hours is None else (START + timedelta(hours=h) for h in hours)
    return Selection(site, start, end, filters=filters_of(filters), **more)


KEPT = {
    "country=DE": lambda r: r["country"] == "DE",
    "country!=DE": lambda r: r["country"] != "DE",
    "country=DE|US": lambda r: r["country"].isin(["DE", "US"]),
    "host=a.example": lambda r: r["host"] == "a.example",
    "host!=a.example": lambda r: r["host"] != "a.example",
    "host=": lambda r: r["host"].isna(),
    "host!=": lambda r: r["host"].notna(),
    "path=/it's": lambda r: r["path"] == "/it's",
    "path~%_\\\\": lambda r: r["path"] == "/100%_\\",
    "path^/a": lambda r: r["path"].str.startswith("/a").eq(True),
    "path~b|ü": lambda r: r["path"].str.contains("b|ü").eq(True),
    "status=404": lambda r: r["status"] == 404,
    "status!=200|304": lambda r: ~r["status"].isin([200, 304]),
    "status^5": lambda r: r["status"] // 100 == 5,
    "method!=GET": lambda r: r["method"] != "GET",
    "device=mobile": lambda r: r["device"] == "mobile",
    "browser=": lambda r: r["browser"].isna(),
    "os!=Linux|": lambda r: r["os"].notna() & (r["os"] != "Linux"),
    "channel=email": lambda r: r["channel"] == "email",
    "source~oo": lambda r: r["source"].str.contains("oo").eq(True),
    "bot_kind=": lambda r: r["bot_kind"].isna(),
    "bot_kind!=": lambda r: r["bot_kind"].notna(),
    "bot_kind=ai-crawler": lambda r: r["bot_kind"] == "ai-crawler",
}  # fmt: skip


def inside(lines: pd.DataFrame, selection: Selection, *filters: str) -> pd.DataFrame:
    """The lines that a selection keeps."""
    kept = lines
    if selection.start is not None and selection.end is not None:
        kept = kept[(kept["event_time"] >= selection.start) & (kept["event_time"] < selection.end)]
    if selection.site is not None:
        kept = kept[kept["site"] == selection.site]
    for each in filters:
        kept = kept[KEPT[each](kept)]
    return kept


def people(lines: pd.DataFrame) -> int:
    return int(lines[~lines["bot"]]["visitor_id"].nunique())


@pytest.mark.parametrize("hours", [None, (5, 50), (5.001, 50.3)])
@pytest.mark.parametrize("each", KEPT)
def test_lines_of_a_filter(scene: Scene, each: str, hours: tuple[float, float] | None) -> None:
    rows, lines = scene
    selection = select(each, hours=hours)
    kept = inside(lines, selection, each)

    found = overview.overview(rows, selection)

    assert (found.requests, found.pageviews, found.visitors) == (
        len(kept),
        kept["pageview"].sum(),
        people(kept),
    )


@pytest.mark.parametrize("filters", [(), ("country=DE",), ("country=DE", "path^/a"), ("path=/a",)])
@pytest.mark.parametrize("recount", [False, True])
def test_pages_and_countries(scene: Scene, filters: tuple[str, ...], recount: bool) -> None:
    rows, lines = scene
    selection = select(*filters, hours=(5, 50), site="a.example", recount=recount)
    kept = inside(lines, selection, *(f for f in filters if f != "path=/a"))
    kept = kept[kept["path"] == "/a"] if "path=/a" in filters else kept
    views = kept[kept["pageview"]]

    by_page = pages.pages(rows, selection)
    by_country = countries.countries(rows, selection)

    wanted = {p: (len(v), v["visitor_id"].nunique()) for p, v in views.groupby("path")}
    assert {p: (n, v) for p, n, v in by_page.itertuples(index=False)} == wanted
    assert list(by_page["pageviews"]) == sorted(by_page["pageviews"], reverse=True)
    assert pages.pages(rows, selection, limit=2).equals(by_page.head(2))
    wanted = {c: (people(v), v["pageview"].sum(), len(v)) for c, v in kept.groupby("country")}
    assert {c: tuple(rest) for c, *rest in by_country.itertuples(index=False)} == wanted


@dataclass(frozen=True)
class Noted(Direct):
    """Rows that note the tables that are read."""

    tables: list[str] = field(default_factory=list)

    def __call__(self, q: Query) -> pd.DataFrame:
        self.tables.extend(q.tables())
        return super().__call__(q)


@pytest.mark.parametrize(
    "filters, hours, tables",
    [
        ((), (5, 50), {"gold/traffic", "silver/sessions"}),
        ((), (5.001, 50), {"silver/requests", "silver/sessions"}),
        (("device=mobile", "os!=Linux"), (5, 50), {"gold/audience", "silver/sessions"}),
        (("device=mobile", "os!=Linux"), (5.5, 50), {"silver/requests", "silver/sessions"}),
        (("channel=email",), (5, 50), {"silver/requests", "silver/sessions"}),
    ],
)
def test_the_cheapest_table_that_has_a_figure_is_read(
    scene: Scene, filters: tuple[str, ...], hours: Hours, tables: set[str]
) -> None:
    noted = Noted(scene[0].reader)
    overview.overview(noted, select(*filters, hours=hours))
    assert set(noted.tables) == tables


def nearest_rank(durations: pd.Series, percent: int) -> float:
    """The quantile of the durations themselves, in seconds."""
    ordered = sorted(durations)
    return ordered[math.ceil(percent * len(ordered) / 100) - 1] / 1e6


@pytest.mark.parametrize("filters", [(), ("bot_kind=",), ("bot_kind!=",), ("path^/a",)])
@pytest.mark.parametrize("hours", [None, (5, 50), (5.001, 50.3)])
def test_latency(scene: Scene, filters: tuple[str, ...], hours: Hours) -> None:
    rows, lines = scene
    selection = select(*filters, hours=hours)
    kept = inside(lines, selection, *filters)["duration_us"].dropna()

    found = latency.latency(rows, selection)
    again = latency.latency(rows, replace(selection, recount=True))

    assert found == again
    assert found.timed == len(kept)
    for percent in (50, 95, 99):
        wanted = nearest_rank(kept, percent)
        assert getattr(found, f"p{percent}") == pytest.approx(wanted, rel=0.0101, abs=1e-6)


def test_quantiles_take_the_nearest_rank() -> None:
    counts = pd.DataFrame({"bucket": [3, 7, 9], "requests": [1, 18, 1]})
    gamma = 1.01 / 0.99

    found = quantiles.summary(counts, quantiles.FINE)

    assert found.timed == 20
    # Of 20 values the median is the 10th, p95 the 19th (exactly 0.95 · 20), p99 the 20th.
    assert found.p50 == found.p95 == pytest.approx(2 * gamma**7 / (gamma + 1) / 1e6)
    assert found.p99 == pytest.approx(2 * gamma**9 / (gamma + 1) / 1e6)
    assert quantiles.summary(counts.head(0), quantiles.FINE) == quantiles.Latency(0, None, None, None)


def test_apdex_counts_tolerated_requests_half() -> None:
    buckets = [quantiles.upper_bucket(t, quantiles.FINE) for t in (0.3, 0.5, 1.9, 2.1)]
    counts = pd.DataFrame({"bucket": buckets, "requests": [4, 2, 2, 2]})

    assert quantiles.apdex(counts, 0.5, quantiles.FINE) == pytest.approx((6 + 2 / 2) / 10)
    assert quantiles.apdex(counts.head(0), 0.5, quantiles.FINE) is None


def test_latency_over_time_and_its_heat_map_count_every_timed_request(scene: Scene) -> None:
    rows, lines = scene
    selection = select(hours=None)
    timed = lines.dropna(subset="duration_us")

    by_time = latency.over_time(rows, selection, 6 * 3600)
    heat = latency.heat(rows, selection, 6 * 3600)

    wanted = timed.groupby(timed["event_time"].dt.floor("6h")).size()
    assert by_time.set_index("bin")["timed"].to_dict() == wanted.to_dict()
    assert heat.groupby("bin")["requests"].sum().to_dict() == wanted.to_dict()
    low, high = heat["low"].to_numpy(), heat["high"].to_numpy()
    for each, wide in timed.groupby(timed["event_time"].dt.floor("6h")):
        chosen = heat["bin"] == each
        within = [
            ((d > low * 1e6) | (low == 0)) & (d <= high * 1e6 * 1.000001) & chosen
            for d in wide["duration_us"]
        ]
        assert (sum(w.astype(int) for w in within)[chosen] == heat["requests"][chosen]).all()


@pytest.mark.parametrize("filters", [(), ("country=DE",)])
def test_slowest_pages(scene: Scene, filters: tuple[str, ...]) -> None:
    """By silver a bucket is computed with logarithms; it is that of the integer bounds, or gold would differ."""
    rows, lines = scene
    selection = select(*filters, hours=(5, 50))
    kept = inside(lines, selection, *filters)
    kept = kept[~kept["bot"] & ~kept["asset"] & (kept["status"] < 400)].dropna(subset="duration_us")

    found = latency.slowest_pages(rows, selection)

    pd.testing.assert_frame_equal(found, latency.slowest_pages(rows, replace(selection, recount=True)))
    wanted = kept["duration_us"].groupby(kept["path"].fillna(""))
    assert found.set_index("path")["timed"].to_dict() == wanted.size().to_dict()
    for row in found.itertuples():
        assert row.p95 == pytest.approx(nearest_rank(wanted.get_group(row.path), 95), rel=0.0501, abs=1e-6)
    assert list(found["p95"]) == sorted(found["p95"], reverse=True)


def test_every_duration_has_the_same_bucket_by_logarithm_and_by_whole_bounds(tmp_path: Path) -> None:
    edges = [int(e) + more for e in bounds(0.05)[:260] for more in (0, 1)]
    lines = [
        lakehouse.requests(visitors=1, bots=0)[0]
        | {"duration_us": each, "status": 200, "asset": False, "path": "/", "bot": False, "offset": i}
        for i, each in enumerate([0, *edges])
    ]
    lakehouse.build(tmp_path, lines)
    rows = Direct(DeltaReader(tmp_path))

    found = latency.page_counts(rows, Selection(recount=True))

    wanted = latency.page_counts(rows, Selection())
    pd.testing.assert_frame_equal(found.sort_values("bucket", ignore_index=True), wanted, check_dtype=False)


@pytest.mark.parametrize("filters", [(), ("status=404",), ("country=DE",)])
@pytest.mark.parametrize("recount", [False, True])
def test_errors(scene: Scene, filters: tuple[str, ...], recount: bool) -> None:
    rows, lines = scene
    selection = select(*filters, hours=(5, 50), recount=recount)
    kept = inside(lines, selection, *filters)
    failed = kept[kept["status"] >= 400]

    found = errors.errors(rows, selection)
    broken = errors.errors(rows, selection, (500, 599), limit=1)

    wanted = {
        (path, status): (len(f), people(f), f["event_time"].max())
        for (path, status), f in failed.groupby([failed["path"].fillna(""), "status"])
    }
    assert {(p, s): tuple(rest) for p, s, *rest in found.itertuples(index=False)} == wanted
    most = found[found["status"] >= 500].head(1)
    assert broken.to_dict("records") == most.to_dict("records")
    statuses = errors.statuses(rows, selection).set_index("status")["requests"].to_dict()
    assert statuses == kept["status"].value_counts().to_dict()


def test_own_pages_come_first_among_the_referrers_of_a_broken_link(scene: Scene) -> None:
    rows, lines = scene
    selection = select(hours=None, site="a.example")

    found = errors.referrers(rows, selection, ["/missing"])

    kept = inside(lines, selection)
    kept = kept[(kept["path"] == "/missing") & kept["referrer"].notna()]
    assert (
        dict(zip(found["referrer"], found["requests"], strict=True))
        == kept["referrer"].value_counts().to_dict()
    )
    assert list(found["own"]) == [True, False, False]
    assert found["referrer"].iloc[0] == "https://a.example/a"


def test_hours_and_weekdays_are_those_of_the_zone(scene: Scene) -> None:
    rows, lines = scene
    selection = replace(select(hours=None), zone="Asia/Kathmandu")  # 5 h 45 min ahead

    found = errors.by_hour_and_weekday(rows, selection)

    local = lines["event_time"].dt.tz_convert("Asia/Kathmandu")
    wanted = lines.groupby([local.dt.weekday, local.dt.hour]).size()
    assert {(w, h): n for w, h, n, *_ in found.itertuples(index=False)} == wanted.to_dict()
    assert found["status_4xx"].sum() == (lines["status"] // 100 == 4).sum()


@pytest.mark.parametrize("filters", [(), ("bot_kind=ai-crawler",), ("method=GET",)])
@pytest.mark.parametrize("recount", [False, True])
def test_bots(scene: Scene, filters: tuple[str, ...], recount: bool) -> None:
    rows, lines = scene
    selection = select(*filters, hours=(5, 50), recount=recount)
    kept = lines[(lines["event_time"] >= selection.start) & (lines["event_time"] < selection.end)]
    kept = kept[kept["bot_kind"] == "ai-crawler"] if "bot_kind=ai-crawler" in filters else kept
    kept = kept[kept["method"] == "GET"] if "method=GET" in filters else kept

    found = bots.bots(rows, selection)

    def counts(b: pd.DataFrame) -> tuple[int, ...]:
        robots, failed = b["path"] == "/robots.txt", b["status"] >= 400
        page = (b["method"] == "GET") & ~b["asset"] & ~failed & ~robots
        return len(b), page.sum(), b["bytes"].sum(), robots.sum(), failed.sum()

    wanted = {name: counts(b) for name, b in kept[kept["bot"]].groupby("bot_name")}
    assert {row.bot_name: tuple(row[3:8]) for row in found.itertuples()} == wanted
    assert found["requests_share"].sum() == pytest.approx(kept["bot"].mean())
    read = bots.read_by(rows, replace(selection, start=START, end=None), "GPTBot")
    every = lines[lines["bot_name"].eq("GPTBot")]
    every = every[every["method"] == "GET"] if "method=GET" in filters else every
    assert read.set_index("path")["requests"].to_dict() == every["path"].fillna("").value_counts().to_dict()


def day(visitor: str, **counts: int) -> dict[str, object]:
    """A row of silver.visitor_days; `minute` is the most pageviews in one."""
    zeros = dict.fromkeys(("requests", "pageviews", "assets", "not_found", "robots_txt"), 0)
    minute = counts.pop("minute", 0)
    minutes = [(5, 1), (77, minute)] if minute else []
    return {"site": "s", "day": START, "visitor_id": visitor, **zeros, **counts, "minutes": minutes}


def test_visitors_that_behave_like_bots_are_suspected(tmp_path: Path) -> None:
    days = [
        day("robots", requests=1, robots_txt=1),
        day("reader", requests=30, pageviews=30, minute=20),
        day("almost", requests=29, pageviews=29, minute=10),
        day("fast", requests=90, pageviews=80, assets=1, minute=61),
        day("quick", requests=90, pageviews=80, assets=1, minute=60),
        day("lost", requests=10, not_found=10),
        day("half", requests=11, not_found=10),
        day("alone", requests=40, pageviews=40, minute=1) | {"site": "text"},
        day("both", requests=70, pageviews=70, robots_txt=2, minute=65),
        day("later", requests=1, robots_txt=1) | {"day": START + timedelta(days=1)},
    ]
    lakehouse.write(tmp_path, "silver.visitor_days", days)
    rows = Direct(DeltaReader(tmp_path))

    found = suspected.suspected(rows, select(hours=(3, 5)))

    assert dict(zip(found["visitor_id"], found["reasons"], strict=True)) == {
        "robots": "a", "reader": "b", "fast": "c", "lost": "d", "both": "a b c",
    }  # fmt: skip
    assert (
        suspected.people(rows, select(hours=(3, 5)))["requests"].item()
        == sum(d["requests"] for d in days) - 1
    )


def test_suspected_days_of_a_country(scene: Scene) -> None:
    rows, lines = scene
    robots = lines[~lines["bot"] & (lines["path"] == "/robots.txt")]
    wanted = (
        robots[robots["country"] == "US"].groupby(["visitor_id", robots["event_time"].dt.floor("D")]).size()
    )

    found = suspected.suspected(rows, select("country=US", hours=None))

    assert set(zip(found["visitor_id"], found["day"], strict=True)) >= set(wanted.index)
    assert set(found["visitor_id"]) <= set(lines[lines["country"] == "US"]["visitor_id"])


def test_sessions_with_a_filter_of_lines_keep_those_with_a_pageview_that_passes(scene: Scene) -> None:
    rows, lines = scene
    every = sessions.latest(rows, select(hours=None), 10_000)
    assert len(every) > 100
    for texts in (
        ("path=/a",),
        ("path=/a", "status=304"),
        ("host=", "device=mobile"),
        ("entry_page^/a", "method=GET"),
    ):
        for hours in (None, (5, 50.5)):
            selection = select(*texts, hours=hours)
            wanted = [s for s in table(rows).itertuples() if keeps(s, lines, texts, selection)]
            found = sessions.summary(rows, selection)
            assert (found.sessions, found.pageviews) == (len(wanted), sum(s.pageviews for s in wanted)), texts


def table(rows: Rows) -> pd.DataFrame:
    names = ["site", "visitor_id", "start_time", "end_time", "pageviews", "entry_page", "device", "channel"]
    return rows(query("silver/sessions", names))


def keeps(session: Any, lines: pd.DataFrame, texts: tuple[str, ...], selection: Selection) -> bool:
    if selection.start and not selection.start <= session.start_time < selection.end:
        return False
    if "device=mobile" in texts and session.device != "mobile":
        return False
    if "entry_page^/a" in texts and not session.entry_page.startswith("/a"):
        return False
    views = lines[
        lines["pageview"] & (lines["site"] == session.site) & (lines["visitor_id"] == session.visitor_id)
    ]
    views = views[views["event_time"].between(session.start_time, session.end_time)]
    tests = {
        "path=/a": lambda v: v["path"] == "/a",
        "status=304": lambda v: v["status"] == 304,
        "host=": lambda v: v["host"].isna(),
        "method=GET": lambda v: v["method"] == "GET",
    }
    for text in texts:
        views = views[tests[text](views)] if text in tests else views
    return len(views) > 0


def test_lines_of_an_entry_page_are_those_during_its_sessions(scene: Scene) -> None:
    rows, lines = scene
    of = [s for s in table(rows).itertuples() if s.entry_page == "/a"]
    during = [
        lines[(lines["visitor_id"] == s.visitor_id) & lines["event_time"].between(s.start_time, s.end_time)]
        for s in of
    ]

    found = overview.overview(rows, select("entry_page=/a", hours=None))

    assert (found.requests, found.sessions) == (len(pd.concat(during)), len(of))


def test_a_figure_opens_its_newest_rows_and_their_raw_lines(scene: Scene, tmp_path: Path) -> None:
    rows, lines = scene
    selection = select("path=/a", hours=(5, 50))
    kept = inside(lines[lines["path"] == "/a"], selection)

    found = drill.newest(rows, selection, limit=5)

    assert list(found["event_time"]) == sorted(kept["event_time"], reverse=True)[:5]
    names = ["topic", "partition", "offset", "site", "kafka_timestamp", "ingested_at"]
    raw = [row | {"value": b"line %d" % row["offset"]} for row in lines[names].to_dict("records")]
    lakehouse.write(tmp_path, "bronze.access_log", raw)
    line = drill.line(Direct(DeltaReader(tmp_path)), found.iloc[0])
    assert line is not None
    assert line.value == b"line %d" % found["offset"].iloc[0]
    assert (line.format, line.rules_version, line.batch) == ("combined", "v1", None)
    assert drill.line(Direct(DeltaReader(tmp_path)), {**found.iloc[0], "offset": 10**9}) is None
