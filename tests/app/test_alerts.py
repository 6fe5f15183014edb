"""The page Alerts: rules, what fired, its chart and its requests, and the notes."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard.controls import noting
from app.dashboard.controls.edit import EDITS
from app.dashboard.panels.alerts import EXAMPLE
from tests.app import tables
from tests.app.showing import metrics, show, table
from tests.app.tables import Request
from tidemark.figures import notes
from tidemark.figures.alert_rules import rules_of
from tidemark.figures.query import Where
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows

RULE = """
[alerts.errors]
metric = "share_5xx"
above = 0.1
filter = []
to = ["mailto://user:5ecre7@mail.example", "$OPS"]
[alerts.new]
metric = "requests"
below = 1
"""
WINDOW = timedelta(minutes=5)


@pytest.fixture(autouse=True)
def _may_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EDITS, "yes")


@pytest.fixture
def began() -> datetime:
    """The start of an outage that lasts two windows."""
    return tables.floor(datetime.now(UTC), 300) - timedelta(hours=2)


@pytest.fixture
def home(tmp_path: Path, began: datetime) -> Path:
    """A home with an outage of shop, an alert of it, one of another site, and one that was withdrawn."""
    minutes = [began + timedelta(minutes=m) for m in range(-90, 60)]
    tables.write_gold(
        tmp_path,
        [Request(at, "v", site=site, status=503 if site == "shop" and began <= at < began + 2 * WINDOW else 200)
         for at in minutes for site in ("shop", "blog")],
    )  # fmt: skip
    fired = {
        "rule": "errors", "site": "shop", "window_start": began, "window_end": began + WINDOW, "state": "ended",
        "ended_at": began + 3 * WINDOW, "metric": "share_5xx", "value": 1.0, "bound": 0.1,
        "about": "share_5xx above 0.1 in 5m", "late": False, "fired_at": began + WINDOW, "due": False,
        "delivered": "ended", "delivered_at": began + 4 * WINDOW, "delivered_to": "target 1 (mailto)",
    }  # fmt: skip
    gone = {"site": "blog", "state": "withdrawn", "ended_at": None, "window_start": began - 6 * WINDOW,
            "window_end": began - 5 * WINDOW, "withdrawn_at": began, "late": True, "due": True,
            "failure": "target 1 (mailto) of alert errors did not take the message"}  # fmt: skip
    old = {
        "window_start": began - timedelta(days=3),
        "ended_at": began - timedelta(days=2),
        "rule": "removed",
    }
    tables.write(tmp_path, "quality/alerts", [fired, fired | gone, fired | old])
    states = (("shop", "firing", 0.5), ("blog", "ok", 0.0), ("quiet", "unknown", None))
    rows = [
        {"rule": "errors", "site": site, "state": state, "value": value, "bound": 0.1, "about": fired["about"],
         "judged_until": began + 9 * WINDOW}
        for site, state, value in states
    ]  # fmt: skip
    tables.write(tmp_path, "quality/alert_rules", rows)
    (tmp_path / "tidemark.toml").write_text(RULE)
    return tmp_path


def charts(page: AppTest) -> list[tuple[str, str]]:
    return [(each.proto.spec, each.proto.alt) for each in page.get("vega_lite_chart")]


def test_rules_and_what_fired(home: Path) -> None:
    page = show("alerts", home)
    assert metrics(page) == {
        "Firing now": "1", "Fired in the range": "1", "Withdrawn": "1", "Waiting messages": "1"
    }  # fmt: skip
    rules = table(page, "rule", "site", "state", "value", "bound", "goes to").values.tolist()
    assert rules[:3] == [
        ["errors", "shop", "▲ firing", "50.0%", "10.0%", "mailto, $OPS"],
        ["errors", "quiet", "? unknown", "–", "10.0%", "mailto, $OPS"],
        ["errors", "blog", "✓ ok", "0.0%", "10.0%", "mailto, $OPS"],
    ]
    assert rules[3][0] == "new" and rules[3][2] == "… not evaluated yet"
    fired = table(page, "rule", "site", "state", "why", "lasted", "delivery").values.tolist()
    assert fired[0][:5] == ["errors", "shop", "■ ended", "5xx 100.0%, bound 10.0%", "15 min"]
    assert fired[0][5].startswith("ended: target 1 (mailto), ")
    assert fired[1][1:3] == ["blog", "✕ withdrawn"] and fired[1][5].startswith("waits: target 1")
    assert not page.error and not page.warning
    assert "5ecre7" not in str(page)


def test_site_and_range_choose_the_alerts(home: Path) -> None:
    assert set(table(show("alerts", home, "blog"), "site", "why")["site"]) == {"blog"}
    assert len(table(show("alerts", home, preset="7d"), "site", "why")) == 3
    assert table(show("alerts", home, preset="1h"), "state", "goes to").shape[0] == 4


def test_the_newest_alert_has_a_chart_with_bound_and_outage_and_its_requests(
    home: Path, began: datetime
) -> None:
    page = show("alerts", home)
    [(spec, alt)] = charts(page)
    marks = [layer["mark"]["type"] for layer in json.loads(spec)["layer"] if "mark" in layer]
    assert marks[:3] == ["rect", "line", "line"]
    assert f"5xx: from 0 to 100 (at {began:%Y-%m-%d %H:%M})" in alt
    assert (
        f"Upper bound: 10.0. Fired from {began:%Y-%m-%d %H:%M} to {began + 3 * WINDOW:%Y-%m-%d %H:%M}." in alt
    )

    page.button("requests-of-alert").click().run()
    opened = page.session_state["opened"]
    assert (opened.selection.site, opened.selection.start) == ("shop", began)
    assert opened.selection.end == began + 3 * WINDOW
    assert Where("status", ">=", 500) in opened.where

    page.button("moved-alerts-fired_panel").click().run()
    explained = page.session_state["opened"].body.keywords
    assert explained["metric"] == "share_5xx"
    now, before = explained["selection"], explained["period"]
    assert (now.site, now.start, now.end) == ("shop", began, began + WINDOW)
    assert (before.site, before.start, before.end) == ("shop", began - WINDOW, began)


def test_the_address_names_the_chosen_alert(home: Path, began: datetime) -> None:
    alert = f"errors blog {began - 6 * WINDOW:%Y-%m-%dT%H:%MZ}"
    page = show("alerts", home, alert=alert)
    assert [t.value for t in page.text if t.value.startswith("errors on blog, ")]
    page.session_state["grid-alerts"] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    assert page.run().query_params["alert"] == f"errors shop {began:%Y-%m-%dT%H:%MZ}"
    page = show("alerts", home, "shop", alert=alert)
    assert "The alert of the address did not fire in this range." in [c.value for c in page.caption]
    assert "alert" not in show("alerts", home).query_params


def test_the_alert_of_a_removed_rule_has_no_chart(home: Path) -> None:
    (home / "tidemark.toml").write_text("[alerts.errors]\nmetric = 'goal:gone'\nabove = 1\n")
    page = show("alerts", home)
    assert charts(page) == []
    assert any("errors is not declared" in text.value for text in page.text)
    (home / "tidemark.toml").write_text("[alerts\n")
    assert "cannot read" in show("alerts", home).warning[0].value


def test_without_rules_the_page_tells_how_to_declare_one(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, [Request(datetime.now(UTC), "v")])
    [shown] = show("alerts", tmp_path).code
    assert shown.value == EXAMPLE.rstrip() or shown.value == EXAMPLE
    assert set(rules_of(tomllib.loads(EXAMPLE)["alerts"], "the page", {})) == {"errors", "silence"}


def test_notes_are_added_and_removed(home: Path, began: datetime) -> None:
    page = show("alerts", home, "shop")
    assert not [d for d in page.dataframe if "cause" in d.value.columns]
    page.text_input[0].set_value("--Sale begins")
    page.datetime_input("note-at").set_value((began + 2 * WINDOW).replace(tzinfo=None))
    next(b for b in page.button if b.label == "Add").click().run()
    assert table(page, "site", "text", "cause").values.tolist() == [["shop", "--Sale begins", "by hand"]]
    assert "--Sale begins" in charts(page)[0][1]

    assert table(show("alerts", home), "text")["text"].tolist() == ["--Sale begins"]
    assert not [d for d in show("alerts", home, "blog").dataframe if "cause" in d.value.columns]
    page.text_input[0].set_value("   ")
    next(b for b in page.button if b.label == "Add").click().run()
    assert "Write what happened" in page.error[0].value

    [row] = notes.notes(Rows(DeltaReader(home))).to_dict("records")
    assert "there is no note x" in noting.remove(home, "x")
    assert noting.remove(home, row["note"]) == ""
    assert notes.notes(Rows(DeltaReader(home))).empty


def test_a_dashboard_that_others_reach_offers_no_form(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EDITS, "no")
    assert not show("alerts", home).text_input
