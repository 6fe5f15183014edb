"""Notes are in every chart over time, and in its alternative text."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard.charts import timechart
from tests.app import scene, tables
from tests.app.showing import show

SITE = "www.example.com"
MARKUP = "<b>Sale</b> begins"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with notes of all sites, of one, of another, and from before the range."""
    home, now = tmp_path_factory.mktemp("home"), datetime.now(UTC)
    scene.build(home, now, people=200)
    rows = [
        note(now - timedelta(minutes=20), MARKUP),
        note(now - timedelta(minutes=10), "New logo", SITE),
        note(now - timedelta(minutes=5), "Elsewhere", "shop.example.com"),
        note(now - timedelta(days=9), "Long ago"),
    ]
    tables.write(home, "quality/notes", rows)
    return home


def note(time: datetime, text: str, site: str = "") -> dict[str, Any]:
    return {"note": text, "time": time, "site": site, "text": text, "cause": "hand", "updated_at": time}


def charts(page: AppTest) -> list[tuple[dict[str, Any], str]]:
    """Specification and alternative text of the page's charts over time."""
    result = [(json.loads(each.proto.spec), each.proto.alt) for each in page.get("vega_lite_chart")]
    return [(spec, alt) for spec, alt in result if " over time" in alt or " by time" in alt]


def flags(spec: dict[str, Any]) -> int:
    """Layers with the marks of notes."""
    marks = [layer.get("mark") for layer in spec.get("layer", ())]
    return sum(isinstance(mark, dict) and mark.get("shape") == "triangle-down" for mark in marks)


@pytest.mark.parametrize(
    ("page", "number"), [("overview", 1), ("live", 1), ("performance", 2), ("quality", 2), ("pipeline", 5)]
)
def test_every_chart_over_time_has_the_notes_of_its_site_and_range(
    home: Path, page: str, number: int
) -> None:
    drawn = charts(show(page, home, SITE))
    assert len(drawn) == number
    for spec, alt in drawn:
        assert flags(spec) == 1
        assert MARKUP in alt and f"{SITE}: New logo" in alt
        assert "Elsewhere" not in alt and "Long ago" not in alt


def test_charts_over_time_are_drawn_in_one_place() -> None:
    dashboard = Path(timechart.__file__).parents[1]
    users = [path.name for path in dashboard.rglob("*.py") if "timespec.spec(" in path.read_text("utf-8")]
    assert users == ["timechart.py"]


def test_all_sites_have_the_notes_of_each(home: Path) -> None:
    [(_, alt)] = charts(show("overview", home))
    assert alt.endswith(".") and "shop.example.com: Elsewhere" in alt


def test_notes_that_cannot_be_read_cost_no_chart(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    tables.write_gold(tmp_path, [tables.Request(now - timedelta(minutes=30), "v1")])
    tables.write(tmp_path, "quality/notes", [note(now - timedelta(minutes=20), MARKUP)])
    (tmp_path / "tables/quality/notes/_delta_log/00000000000000000000.json").write_bytes(b"{broken")
    assert len(charts(show("live", tmp_path))) == 1
    assert any(
        "notes cannot be read" in each.value.replace("\\", "") for each in show("alerts", tmp_path).warning
    )


def test_a_chart_without_notes_has_no_marks(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, [tables.Request(datetime.now(UTC) - timedelta(minutes=30), "v1")])
    [(spec, alt)] = charts(show("live", tmp_path))
    assert flags(spec) == 0 and "Notes" not in alt
