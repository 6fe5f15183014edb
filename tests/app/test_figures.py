"""Figures with and without filters, from gold and from silver, equal a recount of the same rows with pandas."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
import pytest

from app.dashboard.figures import countries, overview, pages
from app.dashboard.figures.reader_delta import DeltaReader
from app.dashboard.figures.rows import Direct, Rows
from app.dashboard.figures.selection import Selection, filters_of
from tests.app import lakehouse
from tests.app.lakehouse import START

GAP = timedelta(minutes=30)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, pd.DataFrame]:
    home = tmp_path_factory.mktemp("home")
    lines = lakehouse.build(home, lakehouse.requests())
    return Direct(DeltaReader(home)), lines


def select(
    *filters: str, hours: tuple[float, float] | None = (5, 50.5), site: str | None = None, **more: bool
) -> Selection:
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
def test_lines_of_a_filter(
    scene: tuple[Rows, pd.DataFrame], each: str, hours: tuple[float, float] | None
) -> None:
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
def test_pages_and_countries(
    scene: tuple[Rows, pd.DataFrame], filters: tuple[str, ...], recount: bool
) -> None:
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
