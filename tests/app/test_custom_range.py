"""A range of one's own on every page."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from tests.app import lakehouse
from tidemark.access.shares import PAGES

MAIN = Path(__file__).parents[2] / "app" / "main.py"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("home")
    lakehouse.build(directory, lakehouse.requests())
    return directory


@pytest.mark.parametrize("page", PAGES)
def test_every_page_takes_a_custom_range(monkeypatch: pytest.MonkeyPatch, home: Path, page: str) -> None:
    monkeypatch.setenv("TIDEMARK_HOME", str(home))
    at = AppTest.from_file(MAIN, default_timeout=60)
    at._page_hash = calc_hash("" if page == PAGES[0] else page)
    until = lakehouse.START + timedelta(days=2)
    at.query_params.update({"from": f"{lakehouse.START:%Y-%m-%d}", "until": f"{until:%Y-%m-%d}"})
    at.run()
    assert not at.exception and not at.error
    assert at.title[0].value.lower().replace(" ", "-") == page
    if page == "live":
        return
    chosen = next(each for each in at.datetime_input if each.label == "Until (UTC)")
    chosen.set_value(lakehouse.START.replace(tzinfo=None) + timedelta(days=1)).run()
    assert at.query_params["until"] in ("2026-03-10T00:00", ["2026-03-10T00:00"]) and not at.exception
