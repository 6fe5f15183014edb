"""The page As reported."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard.panels.reported import AT
from tests.app import tables
from tests.app.showing import metrics, show, table
from tests.app.tables import Request

FIRST = {"requests": 30.0, "pageviews": 30.0, "visitors": 3.0, "sessions": 2.0, "bounce_rate": 0.5}


@pytest.fixture
def day() -> datetime:
    # All that follows it, up to two hours into the day after the next, is past.
    return tables.floor(datetime.now(UTC), 86_400) - timedelta(days=2)


@pytest.fixture
def home(tmp_path: Path, day: datetime) -> Path:
    """A home in which late lines, and then others that no report has yet, changed `day`. The day before has not
    changed."""
    before, hour = day - timedelta(days=1), timedelta(hours=1)
    requests = [Request(day + n * timedelta(minutes=20), f"v{n % 4}") for n in range(36)]
    requests += [Request(before + n * hour, "v1") for n in range(4)]
    tables.write_gold(tmp_path, requests)
    sessions = [tables.session(1, day + hour, ["/"]), tables.session(2, day + hour, ["/", "/a"])]
    tables.write(tmp_path, "silver/sessions", [*sessions, tables.session(3, before + hour, ["/"])])
    unchanged = {"requests": 4.0, "pageviews": 4.0, "visitors": 1.0, "sessions": 1.0, "bounce_rate": 1.0}
    rows = [(day, 25, m, v, "day over") for m, v in FIRST.items()]
    rows += [(before, 25, m, v, "day over") for m, v in unchanged.items()]
    rows += [(day, 26, "requests", 35.0, "late lines"), (day, 26, "visitors", 4.0, "late lines")]
    tables.write(
        tmp_path, "quality/reported",
        [{"site": "default", "day": of, "metric": metric, "value": value, "reported_at": of + after * hour,
          "cause": cause} for of, after, metric, value, cause in rows],
    )  # fmt: skip
    return tmp_path


def changes(page: AppTest) -> list[list[object]]:
    result: list[list[object]] = table(
        page, "day", "figure", "reported", "now", "difference", "change", "causes"
    ).values.tolist()
    return result


def test_what_changed_and_why(home: Path, day: datetime) -> None:
    page = show("reported", home, preset="7d")
    last = day + timedelta(days=1)
    assert metrics(page) == {
        "Days reported": "2", "Days changed since": "1", "Largest change": "+33.3%",
        "Last change": f"{last:%b} {last.day}",
    }  # fmt: skip
    shown = f"{day:%Y-%m-%d}"
    assert changes(page) == [
        [shown, "Requests", "30", "36", "+6", pytest.approx(0.2), "late lines, not reported yet"],
        [shown, "Pageviews", "30", "36", "+6", pytest.approx(0.2), "not reported yet"],
        [shown, "Visitors", "3", "4", "+1", pytest.approx(1 / 3), "late lines"],
    ]
    assert not page.error and not page.warning


def test_all_figures_are_shown_on_demand(home: Path) -> None:
    page = show("reported", home, preset="7d")
    page.toggle[0].set_value(False).run()
    assert len(changes(page)) == 10
    assert changes(page)[4][1:5] == ["Bounce rate", "50.0%", "50.0%", ""]


def test_as_reported_on_a_time(home: Path, day: datetime) -> None:
    page = show("reported", home, preset="7d")
    assert len(changes(page)) == 3
    page.session_state["reported-which"] = AT
    page.run()
    assert [row[1:4] for row in changes(page)] == [["Requests", "35", "36"], ["Pageviews", "30", "36"]]
    chosen = page.datetime_input("as-of")
    chosen.set_value((day + timedelta(hours=26)).replace(tzinfo=None)).run()
    assert [row[1:4] for row in changes(page)] == [["Requests", "35", "36"], ["Pageviews", "30", "36"]]
    chosen.set_value(
        (day + timedelta(hours=1)).replace(tzinfo=None)
    ).run()  # only the day before was reported
    assert metrics(page)["Days reported"] == "1"
    chosen.set_value((day - timedelta(days=3)).replace(tzinfo=None)).run()
    assert not page.metric and "No day of this range" in page.text[0].value


def test_the_chart_has_both_lines(home: Path, day: datetime) -> None:
    [chart] = show("reported", home, preset="7d").get("vega_lite_chart")
    assert f"Visitors: from 1 to 4 (at {day:%Y-%m-%d} 00:00)" in chart.proto.alt
    assert "Dashed: as reported." in chart.proto.alt
