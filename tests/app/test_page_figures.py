"""Pages show what the figure functions say, with and without filters, over tables that the pipeline makes."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
from deltalake import DeltaTable
from streamlit.testing.v1 import AppTest

from app.dashboard import country
from app.dashboard.controls import moved
from app.dashboard.panels.overview import FOLLOW, MORE_VISITORS
from app.dashboard.panels.performance import took
from tests.app import lakehouse
from tests.app.scene import line_of
from tests.app.showing import listed, metrics, show, table
from tidemark.figures import (
    bots,
    countries,
    drill,
    errors,
    explain,
    latency,
    networks,
    overview,
    pages,
    sources,
    suspected,
)
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, filters_of
from tidemark.figures.text import duration, number
from tidemark.settings import Settings

APDEX = 0.03
Chosen = tuple[Path, tuple[str, ...], Rows, Selection]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("home")
    lakehouse.build(directory, lakehouse.requests(), settings=Settings.of(apdex_seconds=APDEX))
    return directory


@pytest.fixture(params=[(), ("device=mobile", "path^/a")], ids=["all", "filtered"])
def chosen(home: Path, request: pytest.FixtureRequest) -> Chosen:
    """A home, filters as text, and the rows and the selection by which the figure functions are asked."""
    return home, request.param, Rows(DeltaReader(home)), Selection(filters=filters_of(request.param))


def test_overview(chosen: Chosen) -> None:
    home, filters, rows, selection = chosen
    page = show("overview", home, preset="all", filters=filters)

    result = overview.overview(rows, selection)
    assert metrics(page) == {
        "Visitors": number(result.visitors),
        "Sessions": number(result.sessions),
        "Pageviews": number(result.pageviews),
        "Bounce rate": f"{result.bounce_rate:.1%}",
        "Session duration": duration(result.duration),
        "Requests": number(result.requests),
    }
    assert listed(page, "overview-pages_panel") == list(pages.pages(rows, selection, 7)["path"])
    people = countries.countries(rows, selection)
    assert listed(page, "overview-countries_panel") == [
        country.name(c) for c in people.loc[people["visitors"] > 0, "country"]
    ]
    for name in ("sessions", "requests", "bounce_rate", "duration", "pageviews"):
        page.button(key=f"show-{name}").click().run()
        page.button(key="data-overview-chart_panel").click().run()
        numbers = page.session_state["opened"].body.keywords
        if name in ("sessions", "requests", "pageviews"):
            assert numbers["table"][name].sum() == getattr(result, name)
    ((label, views),) = numbers["opens"](0)
    newest = drill.newest(rows, views.selection, views.where, limit=10_000)
    assert (label, len(newest)) == ("Show requests", numbers["table"]["pageviews"].iloc[0])
    page.button(key="sql-overview-summary_panel").click().run()
    opened = page.session_state["opened"]
    assert opened.title == "Summary: SQL"
    assert "FROM delta_scan" in opened.body.keywords["written"](opened.body.keywords["current"])
    assert not page.error and not page.warning


def test_before_the_first_sessions_the_overview_has_a_dash(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path / "home")
    DeltaTable(tmp_path / "home/tables/silver/sessions").delete()
    page = show("overview", tmp_path / "home", preset="all")
    assert metrics(page)["Sessions"] == "–" and metrics(page)["Pageviews"] > "0"
    helps = {tile.label: tile.help for tile in page.metric}
    assert helps["Sessions"].endswith(FOLLOW) and not helps["Visitors"].endswith(MORE_VISITORS)
    assert metrics(show("overview", home, preset="all", filters=("path=/none",)))["Sessions"] == "0"


def test_sources(chosen: Chosen) -> None:
    home, filters, rows, selection = chosen
    page = show("sources", home, preset="all", filters=filters)

    result = sources.sources(rows, selection)
    shown = table(page, "channel", "source", "medium", "campaign", "sessions", "visitors").iloc[:, 1:]
    assert shown.values.tolist() == result[list(shown.columns)].values.tolist()
    assert len(shown) > 1 and not page.error


def test_performance(chosen: Chosen) -> None:
    home, filters, rows, selection = chosen
    page = show("performance", home, preset="all", filters=filters)

    result = latency.latency(rows, selection)
    score = latency.apdex(rows, selection, APDEX)
    assert metrics(page) == {
        "p50": took(result.p50), "p95": took(result.p95), "p99": took(result.p99), "Apdex": f"{score:.2f}",
        "Timed requests": number(result.timed),
    }  # fmt: skip
    slowest = latency.slowest_pages(rows, selection, least=10)
    assert table(page, "path", "timed").values.tolist() == slowest[["path", "timed"]].values.tolist()

    page.select_slider(key="apdex").set_value(5.0).run()
    assert metrics(page)["Apdex"] == f"{latency.apdex(rows, selection, 5.0):.2f}"


def test_bots(home: Path) -> None:
    rows, selection = Rows(DeltaReader(home)), Selection()
    page = show("bots", home, preset="all")

    result = bots.bots(rows, selection)
    assert metrics(page)["Requests"] == number(result["requests"].sum())
    assert (
        table(page, "bot_name", "requests").values.tolist()
        == result[["bot_name", "requests"]].values.tolist()
    )
    read = [path or "(none)" for path in bots.read_by(rows, selection, None, 9)["path"]]
    assert listed(page, "bots-pages_panel") == read
    flagged = suspected.suspected(rows, selection)
    assert table(page, "reasons", "pageviews")["pageviews"].tolist() == flagged["pageviews"].tolist()
    days = suspected.beside(rows, selection)
    left = f"{days['without_pageviews'].sum():,}"
    assert metrics(page)["Pageviews without the suspected"] == left != f"{days['pageviews'].sum():,}"
    forged = bots.pretenders(rows, selection)
    assert (
        len(forged)
        and table(page, "addresses", "requests")["requests"].tolist() == forged["requests"].tolist()
    )
    ignored = table(page, "disallowed", "share")
    assert sum(ignored["disallowed"]) == result["disallowed"].sum() > 0
    operators = bots.ai_operators(rows, selection)
    assert table(page, "operator", "ratio", "crawled")["crawled"].tolist() == operators["crawled"].tolist()
    assert page.selectbox(key="ai-operator").value == "OpenAI"

    page.selectbox(key="bot-name").set_value("GPTBot").run()
    read = [path or "(none)" for path in bots.read_by_operator(rows, selection, ["GPTBot"], 9)["path"]]
    assert listed(page, "bots-pages_panel") == read


def test_networks(home: Path) -> None:
    rows, selection = Rows(DeltaReader(home)), Selection()
    page = show("networks", home, preset="all")

    result = networks.networks(rows, selection)
    assert table(page, "as_org", "pageviews", "requests")["requests"].tolist() == result["requests"].tolist()
    cities = networks.cities(rows, selection)
    assert table(page, "city", "country")["city"].tolist() == cities["city"].tolist() != []


def test_errors_with_broken_own_links_first(chosen: Chosen) -> None:
    home, filters, rows, selection = chosen
    page = show("errors", home, preset="all", filters=filters)

    result = errors.statuses(rows, selection)
    every, failed = result["requests"].sum(), result.loc[result["status"] >= 400, "requests"].sum()
    assert metrics(page)["Failed"] == f"{failed / every:.1%}"
    if filters:
        return
    missing = errors.errors(rows, selection, (404, 404))["path"]
    came = errors.referrers(rows, selection, list(missing))
    own = came[came["own"]].groupby("path").agg({"requests": "sum", "referrer": "first"}).loc[missing]
    assert len(own) and len(own) < len(came)
    assert table(page, "path", "own", "referrer").values.tolist() == own.reset_index().values.tolist()
    broken = errors.errors(rows, selection, (500, 599))
    assert (
        table(page, "path", "status", "visitors").values.tolist()
        == broken[["path", "status", "visitors"]].values.tolist()
    )


@pytest.mark.parametrize("page", ["overview", "performance", "sessions", "errors"])
def test_a_page_that_is_filtered_to_nothing_says_which_filter_to_remove(home: Path, page: str) -> None:
    at = show(page, home, preset="all", filters=("path=/nosuch",))

    texts = [text.value for text in at.text if "passes path=/nosuch" in text.value]
    assert texts and all("emove a filter at the top of the page." in text for text in texts)
    assert not at.error and not at.warning


def test_a_panel_opens_its_requests(home: Path) -> None:
    page = show("overview", home, preset="all")

    next(b for b in page.button if b.key == "requests-overview-devices_panel").click().run()
    opened = page.session_state["opened"]
    result = drill.newest(Rows(DeltaReader(home)), opened.selection, opened.where)
    assert len(result) > 100 and set(result["bot_name"].dropna()) == set()


def test_tiles_and_a_panel_say_what_moved(home: Path) -> None:
    def script(home: str) -> None:
        from datetime import timedelta
        from pathlib import Path

        from app.dashboard.controls import address, views
        from app.dashboard.filters import Filters
        from app.dashboard.panels import overview
        from tests.app import lakehouse
        from tidemark.figures.reader_delta import DeltaReader

        start, end = (lakehouse.START + timedelta(hours=hours) for hours in (42, 70))
        reader, filters = DeltaReader(Path(home)), Filters(preset="custom", start=start, end=end)
        address.choose(chart="pageviews")
        views.show(reader, filters)
        overview.page(reader, filters)

    def shown(page: AppTest) -> list[list[list[int]]]:
        """Of the panel and of the dialog, if it is open."""
        assert not page.exception and not page.error
        tables = [each.value for each in page.dataframe if {"before", "now"} <= set(each.value.columns)]
        return [each[["before", "now"]].values.tolist() for each in tables]

    def expected(metric: str, most: int, *, quick: bool = False) -> list[list[int]]:
        hours = [lakehouse.START + timedelta(hours=hours) for hours in (14, 42, 70)]
        now, before = Selection(start=hours[1], end=hours[2]), Selection(start=hours[0], end=hours[1])
        explained = explain.explain(Rows(DeltaReader(home)), metric, now, before, quick=quick)
        rows = explained.rows[(explained.rows["kind"] == "value") & (explained.rows["change"] != 0)]
        rows = pd.concat([explain.outstanding(explained, moved._OUTSTANDING), rows])
        rows = rows.drop_duplicates(["dimension", "value"]).head(most)
        return rows[["before", "now"]].values.tolist()

    page = AppTest.from_function(script, default_timeout=60, kwargs={"home": str(home)}).run()
    assert shown(page) == [expected("pageviews", 10, quick=True)] != [[]]
    page.button("moved-overview-summary_panel-visitors").click().run()
    assert expected("visitors", 40) in shown(page)
    page.selectbox("moved-figure-visitors").set_value("not_found").run()
    assert expected("not_found", 40) in shown(page)
    assert [each.value for each in page.caption if each.value.startswith("404: ")]


def test_the_newest_requests_and_the_line_of_one_as_received(tmp_path: Path) -> None:
    generated = lakehouse.requests()
    lakehouse.build(tmp_path, generated)
    lakehouse.write(tmp_path, "bronze.access_log", [line_of(row) for row in generated])

    def script(home: str, dialog: bool) -> None:
        from pathlib import Path

        import streamlit as st

        from app.dashboard import clock
        from app.dashboard.controls import actions, views
        from app.dashboard.filters import Filters
        from app.dashboard.panel import Look
        from tidemark.figures import drill
        from tidemark.figures.reader_delta import DeltaReader
        from tidemark.figures.selection import Selection, filters_of

        reader, filters = DeltaReader(Path(home)), Filters(preset="all")
        selection = Selection(filters=filters_of(["status=404"]))
        if dialog:
            st.session_state["opened"] = actions.Requests(selection)
            views.show(reader, filters)
            return
        look = Look(reader, filters, clock.now(), "test")
        views._line(look, drill.newest(look.rows, selection).iloc[0])

    def run(dialog: bool) -> AppTest:
        arguments = {"home": str(tmp_path), "dialog": dialog}
        page = AppTest.from_function(script, default_timeout=60, kwargs=arguments).run()
        assert not page.exception
        return page

    shown = table(run(dialog=True), "path", "status", "client_ip")
    assert set(shown["status"]) == {404}
    page = run(dialog=False)
    newest = max((r for r in generated if r["status"] == 404), key=lambda r: (r["event_time"], r["offset"]))
    assert page.code[0].value == line_of(newest)["value"].decode()
    facts = page.text[0].value
    assert f"offset {newest['offset']}" in facts and "Format: combined" in facts and "Rules: v1" in facts
