"""The pages Funnels, Retention and Paths show what their figures say, over tables that the pipeline makes."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.app import lakehouse
from tests.app.showing import listed, metrics, show, table
from tidemark.engine import sketches
from tidemark.figures import extents, funnels, paths, retention
from tidemark.figures.declared import declared
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, filters_of
from tidemark.figures.text import number, share

Chosen = tuple[Path, tuple[str, ...], Rows, Selection]
SETTINGS = """
[goals.deep]
path = "/a/*"
[funnels.visits]
steps = ["/*", "/a", "goal:deep"]
scope = "session"
[funnels.visitors]
steps = ["/", "/a*"]
within = "12h"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("home")
    lakehouse.build(directory, lakehouse.requests(visitors=300))
    (directory / "tidemark.toml").write_text(SETTINGS)
    return directory


@pytest.fixture(params=[(), ("country!=ZZ", "path!=/it's")], ids=["all", "filtered"])
def chosen(home: Path, request: pytest.FixtureRequest) -> Chosen:
    return home, request.param, Rows(DeltaReader(home)), Selection(filters=filters_of(request.param))


def drawn(page: AppTest) -> AppTest:
    assert not page.error and not page.warning and not page.exception
    return page


def test_a_declared_funnel(chosen: Chosen) -> None:
    home, filters, rows, selection = chosen
    page = drawn(show("funnels", home, preset="all", filters=filters))
    for name in ("visits", "visitors"):
        if name != page.selectbox(key="funnel").value:
            page = drawn(page.selectbox(key="funnel").set_value(name).run())
        definition = declared(home).funnel(name)
        page = drawn(page.segmented_control(key="split").set_value("Device").run())
        result = funnels.funnel(rows, selection, definition)
        assert table(page, "step", "count")["count"].tolist() == result.counts
        first, *_, last = result.counts
        assert 0 < last < first
        assert metrics(page)["Took every step"] == number(last)
        assert metrics(page)["Of the first"] == f"{last / first:.1%}"
        by = funnels.by(rows, selection, definition, result, "device")
        assert table(page, "value", "step1")["step1"].tolist() == by[0].tolist()
        lost = funnels.with_lost(rows, selection, definition)[1][0].dropna()
        assert listed(page, "funnels-lost_panel") == lost["path"].tolist()


def test_a_funnel_of_typed_steps_and_how_to_keep_it(home: Path, tmp_path: Path) -> None:
    lakehouse.build(tmp_path, lakehouse.requests(visitors=20))
    page = drawn(show("funnels", tmp_path, preset="all"))
    assert "[funnels." in page.code[0].value and not page.metric

    page = drawn(page.multiselect(key="step").set_value(["/*", "/a*"]).run())
    definition = declared(tmp_path).built(["/*", "/a*"], "visitor", "24h")
    result = funnels.funnel(Rows(DeltaReader(tmp_path)), Selection(), definition)
    assert table(page, "step", "count")["count"].tolist() == result.counts
    kept = page.code[0].value
    (tmp_path / "tidemark.toml").write_text(kept)
    assert declared(tmp_path).funnel("my-funnel") == definition

    page = drawn(page.multiselect(key="step").set_value(["/nowhere", "/a"]).run())
    assert not page.metric and any("/nowhere" in text.value for text in page.text)
    page = page.multiselect(key="step").set_value(["/", "goal:none"]).run()
    assert len(page.warning) == 1 and not page.exception


def cells(page: AppTest) -> list[list[str]]:
    """The rows of the triangle as text."""
    (text,) = [block.body for block in page.get("html") if "<table>" in block.body]
    rows = re.findall(r"<tr>(.*?)</tr>", text.split("<tbody>")[1])
    return [[re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]


@pytest.mark.parametrize("period", ["Day", "Week"])
def test_retention(chosen: Chosen, period: str) -> None:
    home, filters, rows, selection = chosen
    page = drawn(show("retention", home, preset="all", filters=filters))
    if period != "Day":
        page = drawn(page.segmented_control(key="period").set_value(period).run())
    extent = extents.of_site(extents.extents(rows), None)
    by: Any = period.lower()
    result = retention.retention(rows, selection, by, extent)
    expected = []
    for cohort in range(len(result.periods)):
        size, *later = result.returned(cohort)
        if size:
            shares = [share(count, size) for count in later]
            opened = [result.is_open(cohort, n) for n in range(len(shares) + 1)]
            shown = [text + " so far" * is_open for text, is_open in zip(shares, opened[1:], strict=True)]
            expected.append([f"{size:,}" + " so far" * opened[0], *shown])
    got = [[cell for cell in row[1:] if cell] for row in cells(page)]
    assert got == expected and (period == "Week" or len(got) > 2)
    daily = retention.retention(rows, selection, "day", extent).new_and_returning()
    page.button(key="data-retention-new_panel").click().run()
    numbers = page.session_state["opened"].body.keywords["table"]
    assert numbers[["new", "returning"]][::-1].values.tolist() == daily[["new", "returning"]].values.tolist()
    assert metrics(page)["New visitors, whole days"] == number(daily["new"].sum())


def test_retention_beyond_a_full_sketch_states_its_error(tmp_path: Path) -> None:
    lakehouse.build(tmp_path, lakehouse.requests(visitors=20))
    hashes = np.random.default_rng(1).integers(1, 2**61, 3_000, dtype=np.uint64)
    groups, quarter = np.repeat([0, 1], 1_500), np.full(2, 2**61, np.uint64)
    days = [lakehouse.START + timedelta(days=day) for day in (0, 1)]
    rows = [
        {
            "site": "a.example",
            "window_start": day,
            "visitors": 6_000,
            "visitors_sketch": sketch,
            "updated_at": day,
        }
        for day, sketch in zip(
            days, sketches.unite(groups, hashes, quarter).to_bytes().to_pylist(), strict=True
        )
    ]
    lakehouse.write(tmp_path, "gold.visitor_hours", rows)
    page = drawn(show("retention", tmp_path, preset="all"))
    (caption_text,) = [caption.value for caption in page.caption if "standard error" in caption.value]
    # Of every four visitors, one is kept: sqrt(6000 * 3) is 134.
    assert "of 6,000 is 134" in caption_text and "2.24%" in caption_text
    assert metrics(page)["New visitors, whole days"] == "12,000"


@pytest.mark.parametrize(
    "direction, start", [("From the entry", None), ("From a page", "/a"), ("Back from a page", "/a")]
)
def test_paths_lose_nobody(chosen: Chosen, direction: str, start: str | None) -> None:
    home, filters, rows, selection = chosen
    page = drawn(show("paths", home, preset="all", filters=filters))
    if start is not None:
        page = drawn(page.segmented_control(key="direction").set_value(direction).run())
        page = drawn(page.selectbox(key="start").set_value(start).run())
    result = paths.paths(rows, selection, start, backward=direction.startswith("Back"))
    shown = table(page, "level", "path", "count", "on", "left")
    assert shown["count"].tolist() == [n for sheet in result.levels for n in sheet["count"]]
    through = shown.dropna(subset=["on"])
    assert (through["count"] == through["on"] + through["left"]).all() and len(through) > 4
    assert through["left"].sum() > 0


def test_a_click_on_a_page_makes_it_the_start(home: Path) -> None:
    def script() -> None:
        import streamlit as st

        from app.dashboard.panels import paths

        st.session_state.setdefault("direction", paths.ENTRY)
        st.button("other", on_click=paths._begin_at, args=([{"path": "other"}],))
        st.button("page", on_click=paths._begin_at, args=([{"path": "/a"}],))

    page = AppTest.from_function(script).run()
    page.button[0].click().run()
    assert (page.session_state["direction"], "start" in page.session_state) == ("From the entry", False)
    page.button[1].click().run()
    assert (page.session_state["direction"], page.session_state["start"]) == ("From a page", "/a")
