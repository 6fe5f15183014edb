"""Figures of lines and sessions, with and without filters, from gold and from silver, compared with a recount."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.app import lakehouse
from tests.app.lakehouse import START
from tests.app.recounted import KEPT, Hours, Noted, Scene, inside, people, select
from tidemark.figures import (
    bots,
    countries,
    drill,
    errors,
    overview,
    pages,
    sessions,
    sources,
)
from tidemark.figures.extents import Extent
from tidemark.figures.query import query
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection


@pytest.mark.parametrize("hours", [None, (5, 50), (5.001, 50.3)])
@pytest.mark.parametrize("each", KEPT)
def test_lines_of_a_filter(scene: Scene, each: str, hours: tuple[float, float] | None) -> None:
    rows, lines = scene
    selection = select(each, hours=hours)
    kept = inside(lines, selection, each)

    result = overview.overview(rows, selection)

    assert (result.requests, result.pageviews, result.visitors) == (
        len(kept),
        kept["pageview"].sum(),
        people(kept),
    )


@pytest.mark.parametrize("filters", [(), ("country=DE",), ("country=DE", "path^/a"), ("path=/a",)])
@pytest.mark.parametrize("recount, hours", [(False, (5, 50)), (True, (5, 50)), (False, (5.37, 50.2))])
def test_pages_and_countries(
    scene: Scene, filters: tuple[str, ...], recount: bool, hours: tuple[float, float]
) -> None:
    rows, lines = scene
    selection = select(*filters, hours=hours, site="a.example", recount=recount)
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


@pytest.mark.parametrize(
    "filters, hours, tables",
    [
        ((), (5, 50), {"gold/traffic", "silver/sessions"}),
        ((), (5.001, 50), {"gold/traffic", "silver/requests", "silver/sessions"}),
        # No line lies before or after.
        ((), (-3.001, 80.7), {"gold/traffic", "silver/sessions"}),
        (("device=mobile", "os!=Linux"), (5, 50), {"gold/audience", "silver/sessions"}),
        (
            ("device=mobile", "os!=Linux"),
            (5.5, 50),
            # The extent of the lines comes from gold/traffic.
            {"gold/traffic", "gold/audience", "silver/requests", "silver/sessions"},
        ),
        (("device=mobile", "os!=Linux"), (5.1, 5.9), {"gold/traffic", "silver/requests", "silver/sessions"}),
        (("channel=email",), (5, 50), {"silver/requests", "silver/sessions"}),
    ],
)
def test_the_cheapest_table_that_has_a_figure_is_read(
    scene: Scene, filters: tuple[str, ...], hours: Hours, tables: set[str]
) -> None:
    noted = Noted(scene[0].reader)
    overview.overview(noted, select(*filters, hours=hours))
    assert set(noted.tables) == tables


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_windows_at_the_ends_of_a_range_are_counted_from_silver(scene: Scene, zone: str) -> None:
    rows, _ = scene
    selection = replace(select(hours=(5.37, 50.2)), zone=zone)
    order = ["bin", "country"]
    by_both, again = (
        [
            overview.over_time(rows, each, 21_600),
            countries.visitors(rows, each, 3_600).sort_values(order, ignore_index=True),
            errors.statuses(rows, each),
            bots.bots(rows, each, limit=2),
            sources.sources(rows, each),
        ]
        for each in (selection, replace(selection, recount=True))
    )
    for found, wanted in zip(by_both, again, strict=True):
        assert len(wanted) > 1
        pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


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
            result = sessions.summary(rows, selection)
            assert (result.sessions, result.pageviews) == (len(wanted), sum(s.pageviews for s in wanted)), (
                texts
            )


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


@pytest.mark.parametrize("filters", [(), ("channel=email|direct",), ("source^g",), ("country=DE",)])
@pytest.mark.parametrize("recount", [False, True])
def test_sources(scene: Scene, filters: tuple[str, ...], recount: bool) -> None:
    rows, _ = scene
    names = [
        "visitor_id",
        "start_time",
        "pageviews",
        "bounced",
        "country",
        "channel",
        "source",
        "medium",
        "campaign",
    ]
    kept = rows(query("silver/sessions", names)).fillna("")
    selection = select(*filters, hours=(5, 50), recount=recount)
    kept = kept[(kept["start_time"] >= selection.start) & (kept["start_time"] < selection.end)]
    tests = {
        "channel=email|direct": kept["channel"].isin(["email", "direct"]),
        "source^g": kept["source"].str.startswith("g"),
        "country=DE": kept["country"] == "DE",
    }
    for each in filters:
        kept = kept[tests[each]]

    result = sources.sources(rows, selection)

    wanted = {
        key: (len(s), s["bounced"].sum(), s["pageviews"].sum(), s["visitor_id"].nunique())
        for key, s in kept.groupby(["channel", "source", "medium", "campaign"])
    }
    assert {tuple(row[:4]): tuple(row[4:]) for row in result.itertuples(index=False)} == wanted
    assert list(result["sessions"]) == sorted(result["sessions"], reverse=True)
    noted = Noted(rows.reader)
    sources.over_time(noted, selection, 3600)
    gold = not recount and filters != ("country=DE",)
    assert noted.tables == ["gold/sources" if gold else "silver/sessions"]


OVER_TIME = {
    "overview": lambda rows, s: overview.over_time(rows, s, 7200),
    "countries": lambda rows, s: countries.visitors(rows, s, 7200),
    "sessions": lambda rows, s: sessions.over_time(rows, s, 7200),
    "sources": lambda rows, s: sources.over_time(rows, s, 7200),
    "classes": lambda rows, s: errors.classes_over_time(rows, s, 7200),
    "bots": lambda rows, s: bots.over_time(rows, s, 7200),
    "ai": lambda rows, s: bots.ai(rows, s, 7200),
}


@pytest.mark.parametrize("figure", OVER_TIME)
@pytest.mark.parametrize("filters", [(), ("country=DE",)])
def test_figures_over_time_are_the_same_from_gold_and_from_silver(
    scene: Scene, figure: str, filters: tuple[str, ...]
) -> None:
    rows, lines = scene
    selection = select(*filters, hours=(6, 50))

    result, recounted = (
        OVER_TIME[figure](rows, replace(selection, recount=recount)) for recount in (False, True)
    )

    assert len(result) > 0
    keys = [name for name in result.columns if name in ("bin", "country", "channel", "bot_kind")]
    names = sorted(set(result.columns) & set(recounted.columns))
    one, other = (each[names].sort_values(keys, ignore_index=True) for each in (result, recounted))
    pd.testing.assert_frame_equal(one, other, check_dtype=False)
    if figure == "overview":
        kept = inside(lines, selection, *filters)
        wanted = kept.groupby(kept["event_time"].dt.floor("2h")).size()
        assert result.set_index("bin")["requests"].to_dict() == wanted.to_dict()


def test_figures_and_their_change(scene: Scene) -> None:
    rows, lines = scene
    day, before = select(hours=(24, 48)), select(hours=(0, 24))
    extent = Extent(START, START + timedelta(hours=72))

    changed = overview.changes(rows, replace(day, comparison="previous"), extent, START + timedelta(days=9))

    one, other = inside(lines, before), inside(lines, day)
    assert (changed["requests"].before, changed["requests"].now) == (len(one), len(other))
    assert (changed["visitors"].before, changed["visitors"].now) == (people(one), people(other))


def test_lines_of_an_entry_page_are_those_during_its_sessions(scene: Scene) -> None:
    rows, lines = scene
    of = [s for s in table(rows).itertuples() if s.entry_page == "/a"]
    during = [
        lines[(lines["visitor_id"] == s.visitor_id) & lines["event_time"].between(s.start_time, s.end_time)]
        for s in of
    ]

    result = overview.overview(rows, select("entry_page=/a", hours=None))

    assert (result.requests, result.sessions) == (len(pd.concat(during)), len(of))


def test_a_figure_opens_its_newest_rows_and_their_raw_lines(scene: Scene, tmp_path: Path) -> None:
    rows, lines = scene
    selection = select("path=/a", hours=(5, 50))
    kept = inside(lines[lines["path"] == "/a"], selection)

    result = drill.newest(rows, selection, limit=5)

    assert list(result["event_time"]) == sorted(kept["event_time"], reverse=True)[:5]
    names = ["topic", "partition", "offset", "site", "kafka_timestamp", "ingested_at"]
    raw = [row | {"value": b"line %d" % row["offset"]} for row in lines[names].to_dict("records")]
    lakehouse.write(tmp_path, "bronze.access_log", raw)
    line = drill.line(Rows(DeltaReader(tmp_path)), result.iloc[0])
    assert line is not None
    assert line.value == b"line %d" % result["offset"].iloc[0]
    assert (line.format, line.rules_version, line.batch) == ("combined", "v1", None)
    assert drill.line(Rows(DeltaReader(tmp_path)), {**result.iloc[0], "offset": 10**9}) is None
