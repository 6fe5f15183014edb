"""The values and bounds of a rule's chart, recounted from the lines; tests/operate/alerts recounts the alerts."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.app import lakehouse
from tests.app.lakehouse import DAYS, START
from tidemark.errors import SettingError
from tidemark.figures.alert_rules import Rule, rule_of
from tidemark.figures.declared import Declared
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.rules import watched

WEEK = timedelta(days=7)
SITE = "a.example"
Home = tuple[Path, pd.DataFrame, datetime]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with the same three days of five weeks, each with other requests, its lines and its first event time."""
    home = tmp_path_factory.mktemp("home")
    rows = [
        {**row, "event_time": row["event_time"] - week * WEEK}
        for week in range(5)
        for row in lakehouse.requests(seed=week, visitors=25)
    ]
    for offset, row in enumerate(rows):
        row["offset"] = offset
    lines = lakehouse.build(home, rows)
    return home, lines, lines.loc[lines["site"] == SITE, "event_time"].min().to_pydatetime()


def drawn(home: Path, rule: Rule, first: datetime, start: datetime, end: datetime) -> pd.DataFrame:
    return watched(Rows(DeltaReader(home)), rule, SITE, first, start, end)


def counted(lines: pd.DataFrame, days: timedelta) -> np.ndarray:
    """Requests of the site in each hour of DAYS days, so long before the last ones."""
    kept = lines[lines["site"] == SITE]
    hours = (kept["event_time"] - (START - days)) // timedelta(hours=1)
    return np.bincount(hours[(hours >= 0) & (hours < DAYS * 24)], minlength=DAYS * 24).astype(float)


def test_a_chart_has_every_window_and_the_bounds_of_the_weeks_before(home: Home) -> None:
    directory, lines, first = home
    rule = Rule("requests", "1h", above=9, below=1, deviation=1)
    result = drawn(directory, rule, first, START, START + timedelta(days=DAYS))
    np.testing.assert_array_equal(result["value"], counted(lines, timedelta()))
    history = np.stack([counted(lines, week * WEEK) for week in range(1, 5)])
    middle = np.median(history, axis=0)
    spread = 1.4826 * np.median(np.abs(history - middle), axis=0)
    usual = spread > 0
    assert usual.any() and not usual.all()
    np.testing.assert_allclose(result["upper"], np.where(usual, np.minimum(9, middle + spread), 9))
    np.testing.assert_allclose(result["lower"], np.where(usual, np.maximum(1, middle - spread), 1))


@pytest.mark.parametrize("metric", ["share_5xx", "p95"])
def test_what_no_request_has_is_missing(home: Home, metric: str) -> None:
    directory, lines, first = home
    result = drawn(directory, Rule(metric, "1h", above=1), first, START, START + timedelta(days=DAYS))
    kept = lines["latency_bucket"].notna() if metric == "p95" else lines["status"].notna()
    known = counted(lines[kept], timedelta()) > 0
    np.testing.assert_array_equal(result["value"].notna(), known)


def test_windows_before_the_sites_first_have_no_value(home: Home) -> None:
    directory, _, first = home
    rule = Rule("requests", "1d", below=1)
    result = drawn(directory, rule, first, first - 2 * WEEK, first + timedelta(days=1))
    known = result.loc[result["value"].notna(), "bin"]
    assert known.min() == pd.Timestamp(first).floor("D") and len(known) == 2


@pytest.mark.parametrize("values", [{"metric": "goal:none"}, {"metric": "requests", "window": "2h"}])
def test_a_rule_that_the_pipeline_refuses_is_an_error(values: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        rule_of(Declared({"alerts": {"bad": {**values, "above": 1}}}), "bad")
