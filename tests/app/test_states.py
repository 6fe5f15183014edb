"""What a page says where it has nothing to show: without tables, with unreadable ones, by a filter that nothing passes,
and to a viewer who may not see single requests."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard import panels
from tests.app import scene
from tests.app.showing import show
from tests.fixtures.home import KEPT, extract

# All but Access, which is about people and keys.
PAGES = [
    name
    for _, name, _ in pkgutil.iter_modules(panels.__path__)
    if name != "access" and hasattr(importlib.import_module(f"{panels.__name__}.{name}"), "page")
]
# Their figures are not of requests, so filters do not apply.
UNFILTERED = {"alerts", "definitions", "others", "pipeline", "quality", "reported"}
# They have something to say before there are tables.
WITHOUT_TABLES = {"alerts", "definitions", "others", "reported"}
ADDRESS = {"funnels": {"step": ["/", "/docs"]}}
LOCKED = "Only analysts see single requests"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    scene.build(home, datetime.now(UTC), people=60)
    return home


@pytest.fixture(scope="module")
def broken(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    broken = tmp_path_factory.mktemp("broken") / "home"
    shutil.copytree(home, broken)
    for log in broken.glob("tables/*/*/_delta_log/*.json"):
        log.write_bytes(b"{broken")
    return broken


def texts(at: AppTest) -> list[str]:
    elements = (*at.text, *at.caption, *at.warning, *at.info)
    return [str(element.value).replace("\\", "") for element in elements]


def has_figures(at: AppTest) -> bool:
    return bool(at.metric or at.dataframe or at.get("vega_lite_chart"))


def every_panel_speaks(at: AppTest) -> bool:
    titles = [text.value for text in at.markdown if text.value.startswith("#####")]
    return len(texts(at)) >= max(len(titles), 1)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", KEPT)
def test_no_page_takes_the_tables_of_an_earlier_version_for_damaged_ones(
    page: str, name: str, tmp_path: Path
) -> None:
    extract(name, tmp_path)
    older = show(page, tmp_path, preset="all", **ADDRESS.get(page, {}))
    assert not older.error and not any("repair" in each or "cannot be read" in each for each in texts(older))


@pytest.mark.parametrize("page", PAGES)
def test_every_page_says_what_to_do_where_it_has_nothing_to_show(
    page: str, home: Path, broken: Path, tmp_path: Path
) -> None:
    address = ADDRESS.get(page, {})

    empty = show(page, tmp_path, **address)
    assert every_panel_speaks(empty) and not has_figures(empty)
    assert not empty.warning and not empty.error
    if page not in WITHOUT_TABLES:
        assert any("No data yet" in each and "tidemark run" in each for each in texts(empty))

    unreadable = show(page, broken, **address)
    assert every_panel_speaks(unreadable) and not has_figures(unreadable) and not unreadable.error
    assert any("cannot be read" in each and "tidemark repair" in each for each in texts(unreadable))

    nobody = show(page, home, filters=("country=XX",), **address)
    if page not in UNFILTERED:
        assert not nobody.warning and not nobody.error
        assert any("country=XX" in each and "emove a filter" in each for each in texts(nobody))

    viewer = show(page, home, sites=("www.example.com",), **address)
    if page == "sessions":
        assert any(LOCKED in each and "An admin can give" in each for each in texts(viewer))
