"""Why a figure changed: the values of every dimension add up to the change, and each has its lines."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from tests.app.recounted import Scene, inside, select
from tidemark.figures import explain, overview
from tidemark.figures.declared import Declared
from tidemark.figures.explain import DIMENSIONS, Explained
from tidemark.figures.extents import Extent
from tidemark.figures.measures import LINES, measured
from tidemark.figures.selection import Selection, SelectionError, filters_of

COLUMNS = {
    "page": "path", "source": "source", "campaign": "utm_campaign", "country": "country", "network": "network",
    "bot": "bot_name", "status": "status", "host": "host", "device": "device",
}  # fmt: skip
GOALS = Declared({"goals": {"read": {"path": "/a*"}}})
# Whole hours, which gold answers, and others.
RANGES = {"gold": (36.0, 72.0), "silver": (40.25, 71.5)}


def explained(scene: Scene, metric: str, hours: tuple[float, float], *filters: str) -> Explained:
    rows, _ = scene
    now = select(*filters, hours=hours)
    before = select(*filters, hours=(2 * hours[0] - hours[1], hours[0]))
    return explain.explain(rows, metric, now, before, GOALS)


@pytest.mark.parametrize(
    "metric", ["requests", "bytes", "visitors", "sessions", "bounce_rate", "share_5xx", "goal:read"]
)
def test_the_values_of_every_dimension_add_up_to_the_change(scene: Scene, metric: str) -> None:
    result = explained(scene, metric, RANGES["gold"])

    assert result.change
    assert set(result.same) | set(result.rows["dimension"]) == set(DIMENSIONS)
    for _, rows in result.rows.groupby("dimension"):
        assert rows["change"].sum() == pytest.approx(result.change, abs=1e-12)
        assert rows["now"].sum() == pytest.approx(result.now, abs=1e-12)
        assert rows["share"].sum() == pytest.approx(1)
    values = result.rows[result.rows["kind"] == "value"]
    assert values["change"].abs().is_monotonic_decreasing


@pytest.mark.parametrize("hours", RANGES.values(), ids=RANGES)
def test_requests_of_every_dimension_are_those_of_the_lines(scene: Scene, hours: tuple[float, float]) -> None:
    """Values beyond the first ones and small ones are together in one row."""
    result = explained(scene, "requests", hours)
    both = [inside(scene[1], each) for each in (result.selection, result.period)]

    for dimension, column in COLUMNS.items():
        texts = [each[column].astype(object).where(each[column].notna(), "").astype(str) for each in both]
        if dimension == "campaign":
            texts = [each.str.lower() for each in texts]
        counts = pd.concat([each.value_counts() for each in texts], axis=1).fillna(0)
        rows = result.rows[result.rows["dimension"] == dimension].set_index("value")
        assert len(rows) == min(len(counts), explain.MOST_VALUES + 1)
        for value, row in rows[rows["kind"] == "value"].iterrows():
            assert (row["now"], row["before"]) == tuple(counts.loc[str(value)])


@pytest.mark.parametrize("metric", ["pageviews", "visitors", "requests", "sessions"])
def test_quickly_only_by_the_dimensions_of_gold_tables(scene: Scene, metric: str) -> None:
    whole = explained(scene, metric, RANGES["gold"])
    quick = explain.explain(scene[0], metric, whole.selection, whole.period, quick=True)

    known = set(quick.rows["dimension"])
    assert known and known < set(whole.rows["dimension"])
    rows = whole.rows[whole.rows["dimension"].isin(known)].reset_index(drop=True)
    pd.testing.assert_frame_equal(quick.rows, rows)


def test_the_filters_of_a_row_select_its_lines(scene: Scene) -> None:
    for metric in ("not_found", "visitors"):
        result = explained(scene, metric, RANGES["gold"])
        kinds = {"value"} if metric == "visitors" else {"value", "other"}
        # Two of each dimension, and the others together.
        few = result.rows[result.rows["kind"].isin(kinds)].groupby(["dimension", "kind"]).head(2)
        for row in few.itertuples():
            kept = result.selection.having(*filters_of(row.filters))
            measure = "visitors" if metric == "visitors" else "requests"
            counted = measured(scene[0], kept, LINES, [measure])
            assert counted[measure].iloc[0] == row.now, row


def test_sessions_by_what_their_pageviews_have_overlap(scene: Scene) -> None:
    result = explained(scene, "sessions", RANGES["gold"])
    statuses = result.rows[result.rows["dimension"] == "status"]

    assert set(statuses["kind"]) == {"value", "overlap"}
    assert result.overlaps["status"] == "A session with several values counts for each of them."
    assert not {"page", "country", "device", "source", "campaign"} & set(result.overlaps)
    for row in statuses[statuses["kind"] == "value"].itertuples():
        kept = result.selection.having(*filters_of(row.filters))
        assert overview.overview(scene[0], kept).sessions == row.now


def test_visitors_of_several_pages_overlap_those_of_a_country_do_not(scene: Scene) -> None:
    result = explained(scene, "visitors", RANGES["gold"])

    assert {"page", "status"} <= set(result.overlaps)
    assert not {"country", "device", "network"} & set(result.overlaps)
    overlap = result.rows[(result.rows["dimension"] == "page") & (result.rows["kind"] == "overlap")].iloc[0]
    assert overlap["now"] < 0 and overlap["filters"] == ()


def test_filters_hold_for_both_periods(scene: Scene) -> None:
    result = explained(scene, "requests", RANGES["silver"], "device=mobile", "status!=404")

    assert "device" in result.same and "status" not in result.same
    now, before = (
        inside(scene[1], replace(each, filters=()), "device=mobile")
        for each in (result.selection, result.period)
    )
    assert (result.now, result.before) == ((now["status"] != 404).sum(), (before["status"] != 404).sum())


def test_a_rate_without_denominator_has_no_rows(scene: Scene) -> None:
    result = explained(scene, "share_5xx", (720.0, 756.0))

    assert (result.now, result.change, len(result.rows)) == (None, None, 0)


def test_without_a_change_there_are_no_shares(scene: Scene) -> None:
    rows, _ = scene
    same = select(hours=RANGES["gold"])
    result = explain.explain(rows, "requests", same, same)

    assert result.change == 0 and result.rows["share"].isna().all() and (result.rows["change"] == 0).all()


def test_what_cannot_be_explained_says_why(scene: Scene) -> None:
    with pytest.raises(SelectionError, match=r"no metric 'p95' to explain"):
        explain.metric_of("p95")
    range_of = select(hours=(0.0, 24.0))
    assert range_of.start is not None
    known = Extent(range_of.start, range_of.end)
    with pytest.raises(SelectionError, match="the first line is of 2026-03-09 00:00 UTC"):
        explain.period_before(range_of, known, range_of.end)
    with pytest.raises(SelectionError, match="has no beginning"):
        explain.period_before(Selection(), known, range_of.end)
