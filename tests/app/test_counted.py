"""Changes of a list's rows against the earlier period, and the requests behind marks of charts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pandas as pd
import pytest

from tests.app.lakehouse import DAYS, START
from tests.app.recounted import Scene, inside, select
from tidemark.figures import bots, counted, countries, drill, errors, latency, pages, sessions, sources
from tidemark.figures.comparison import Change
from tidemark.figures.counted import Counted
from tidemark.figures.extents import Extent
from tidemark.figures.query import Where
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

LISTS: dict[str, tuple[Counted, Callable[[Rows, Selection], pd.DataFrame]]] = {
    "pages": (pages.COUNTED, pages.pages),
    "channels and sources": (
        sources.counted(["channel", "source"]),
        lambda rows, each: sources.sources(rows, each, ["channel", "source"]),
    ),
    "countries": (countries.counted("country"), countries.countries),
    "browsers": (
        countries.counted("browser"),
        lambda rows, each: countries.audience(rows, each, "browser"),
    ),
    "errors": (errors.COUNTED, errors.errors),
    "bots": (bots.COUNTED, bots.bots),
    "what bots read": (bots.counted_pages(), bots.read_by),
    "entry pages": (sessions.counted("entry_page"), lambda rows, each: sessions.by(rows, each, "entry_page")),
}


@pytest.mark.parametrize("filters", [(), ("country=DE",)])
@pytest.mark.parametrize("name", LISTS)
def test_changes_of_a_list(scene: Scene, name: str, filters: tuple[str, ...]) -> None:
    rows, _ = scene
    selection, period = select(*filters, hours=(36, 60)), select(*filters, hours=(12, 36))
    what, figure = LISTS[name]
    result = figure(rows, selection)

    changes = counted.changes(rows, what, result.head(5), selection, period)

    def counts(each: Selection) -> dict[object, int]:
        return figure(rows, each).set_index(list(what.by))[what.name].to_dict()

    now, before = counts(selection), counts(period)
    keys = result.set_index(list(what.by)).index[:5]
    assert changes == [Change(now[key], before.get(key, 0)) for key in keys]
    assert counted.changes(rows, what, result.head(5), selection, period, known=True) == changes
    assert any(map(str, changes)) or name == "bots"
    assert counted.changes(rows, what, result.head(2), selection, None) == [Change(None, None)] * len(
        result.head(2)
    )


def test_changes_of_latencies(scene: Scene) -> None:
    rows, _ = scene
    selection, period = select(hours=(36, 60)), select(hours=(12, 36))
    result = latency.slowest_pages(rows, selection)
    before = latency.slowest_pages(rows, period).set_index("path")["p95"].to_dict()

    changes = latency.p95_changes(rows, result, selection, period)

    assert changes == [
        Change(p95, before.get(path)) for path, p95 in zip(result["path"], result["p95"], strict=True)
    ]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_the_requests_of_an_hour_of_a_weekday(scene: Scene, zone: str) -> None:
    rows, _ = scene
    selection = replace(select(hours=None), zone=zone)
    heat = errors.by_hour_and_weekday(rows, selection)
    most = heat.loc[heat["requests"].idxmax()]
    extent = Extent(START, START + timedelta(days=DAYS))

    at = errors.at_hour(selection, extent, int(most["weekday"]), int(most["hour"]))
    result = drill.newest(rows, selection, (at,), limit=10_000)

    assert len(result) == most["requests"] > 0
    local = result["event_time"].dt.tz_convert(zone)
    assert set(zip(local.dt.weekday, local.dt.hour, strict=True)) == {(most["weekday"], most["hour"])}


def test_the_requests_of_sessions_by_their_duration(scene: Scene) -> None:
    rows, lines = scene
    selection = select("device=mobile", hours=None)
    long = sessions.during(selection, Where("duration_seconds", ">=", 60))

    result = drill.newest(rows, selection, (long, Where("pageview", "=", True)), limit=10_000)

    every = sessions.latest(rows, selection, 10_000)
    wanted = every.loc[every["duration_seconds"] >= 60, "pageviews"].sum()
    assert len(result) == wanted > 0
    assert len(inside(lines, selection, "device=mobile")) > wanted
