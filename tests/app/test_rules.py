"""The values and bounds of a rule's chart are those that the pipeline judges."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.app import lakehouse
from tests.app.lakehouse import DAYS, START
from tidemark.contract import registry
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Direct
from tidemark.figures.rules import rule_of, watched
from tidemark.figures.selection import SelectionError
from tidemark.operate.alerts import judging
from tidemark.operate.alerts.record import window_of
from tidemark.operate.alerts.values import Figures
from tidemark.settings import Settings
from tidemark.settings.alerts import METRICS, AlertSettings, alerts_of
from tidemark.settings.questions import goals_of
from tidemark.store import lakehouse as houses
from tidemark.store.deltars import DeltaRsStore

WEEK = timedelta(days=7)
GOALS: dict[str, Any] = {"a": {"path": "/a*"}}
SITE = "a.example"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A home with the same three days of five weeks, each with other requests, and its first event time."""
    home = tmp_path_factory.mktemp("home")
    rows = [
        {**row, "event_time": row["event_time"] - week * WEEK}
        for week in range(5)
        for row in lakehouse.requests(seed=week, visitors=25)
    ]
    for offset, row in enumerate(rows):
        row["offset"] = offset
    lines = lakehouse.build(home, rows)
    return home, lines.loc[lines["site"] == SITE, "event_time"].min().to_pydatetime()


RULES: dict[str, dict[str, Any]] = {
    **{f"{metric} {window}": {"metric": metric, "window": window, "above": 2.5}
       for metric in (*METRICS, "goal:a") for window in ("5m", "1h", "1d")},
    "filtered": {"metric": "requests", "window": "1h", "below": 3, "filter": ["bot_kind=", "path^/a|/m", "os!=Linux"]},
    "visitors filtered": {"metric": "visitors", "window": "1h", "above": 1, "filter": ["country=DE", "country=US"]},
    "p95 filtered": {"metric": "p95", "window": "1d", "above": 0.01, "filter": ["status~0"]},
    "goal filtered": {"metric": "goal:a", "window": "1d", "above": 2, "filter": ["country=DE|US"]},
    "unusual": {"metric": "requests", "window": "1h", "deviation": 1},
    "unusual or many": {"metric": "requests", "window": "1d", "deviation": 2, "above": 90, "below": 40},
    "unusual share": {"metric": "share_bots", "window": "1d", "deviation": 1},
}  # fmt: skip


def judged(home: Path, rule: AlertSettings, first: Any) -> tuple[np.ndarray, judging.Judged]:
    """The values of the last week's windows, and what the pipeline makes of them."""
    tables = {table.name: table for table in registry.tables()}
    figures = Figures(DeltaRsStore(houses.of(Settings.of(home=home))), tables, rule)
    start, end = (window_of(time, rule.seconds) for time in (START, START + timedelta(days=DAYS)))
    since = window_of(first, rule.seconds)

    def values(shift: int) -> np.ndarray:
        windows = np.arange(start - shift, end - shift)
        return np.where(windows < since, np.nan, figures.read([SITE], start - shift, end - shift)[0])

    weeks = np.stack([values(week * 7 * 86_400 // rule.seconds) for week in range(1, judging.WEEKS + 1)])
    return values(0), judging.judged(rule, values(0), weeks)


@pytest.mark.parametrize("name", RULES)
def test_a_chart_shows_what_is_judged(home: tuple[Path, Any], name: str) -> None:
    directory, first = home
    goals = goals_of(GOALS, "a file")
    rule = alerts_of({"of": {**RULES[name]}}, "a file", goals)["of"]
    values, found = judged(directory, rule, first)

    drawn = watched(
        Direct(DeltaReader(directory)),
        rule_of(RULES[name], GOALS),
        SITE,
        first,
        START,
        START + timedelta(days=DAYS),
    )
    np.testing.assert_allclose(drawn["value"], values, rtol=1e-12)
    assert np.isfinite(values).any()
    outside = (drawn["value"] < drawn["lower"]) | (drawn["value"] > drawn["upper"])
    np.testing.assert_array_equal(outside, found.breaches)
    if "deviation" in RULES[name]:
        assert found.breaches.any() and found.obeys.any()
    bound = np.where(drawn["value"] > drawn["upper"], drawn["upper"], drawn["lower"])
    np.testing.assert_allclose(bound[found.breaches], found.bound[found.breaches], rtol=1e-12)


def test_windows_before_the_sites_first_have_no_value(home: tuple[Path, Any]) -> None:
    directory, first = home
    rule = rule_of({"metric": "requests", "window": "1d", "below": 1}, {})
    drawn = watched(
        Direct(DeltaReader(directory)), rule, SITE, first, first - 2 * WEEK, first + timedelta(days=1)
    )
    known = drawn.loc[drawn["value"].notna(), "bin"]
    assert known.min() == pd.Timestamp(first).floor("D") and len(known) == 2


@pytest.mark.parametrize("values", [{"metric": "goal:none"}, {"metric": "requests", "window": "2h"}])
def test_a_rule_that_the_pipeline_refuses_is_told(values: dict[str, Any]) -> None:
    with pytest.raises(SelectionError):
        rule_of(values, GOALS)


def test_targets_are_secrets() -> None:
    to = ["mailto://user:5ecre7@mail.example", "$OPS_CHAT", "5ecre7"]
    assert rule_of({"metric": "requests", "to": to}, {}).targets == ("mailto", "$OPS_CHAT", "unknown")
