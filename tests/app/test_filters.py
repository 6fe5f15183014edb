from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard.filters import Filters
from tidemark.figures.comparison import earlier
from tidemark.figures.extents import Extent
from tidemark.figures.query import Where
from tidemark.figures.selection import moment

NOW = datetime(2026, 3, 10, 12, 7, 31, tzinfo=UTC)
NOTHING = Extent()


@pytest.mark.parametrize(
    "preset, start, width",
    [
        ("15m", datetime(2026, 3, 10, 11, 52, tzinfo=UTC), 60),
        ("1h", datetime(2026, 3, 10, 11, 7, tzinfo=UTC), 60),
        ("24h", datetime(2026, 3, 9, 12, 0, tzinfo=UTC), 1800),
        ("7d", datetime(2026, 3, 3, 12, 0, tzinfo=UTC), 7200),
        ("30d", datetime(2026, 2, 8, 12, 0, tzinfo=UTC), 21_600),
    ],
)
def test_presets_slide_with_the_clock_and_start_on_a_bin(preset: str, start: datetime, width: int) -> None:
    span = Filters(preset=preset).span(NOW, NOTHING)

    assert (span.start, span.end, span.bin_seconds) == (start, None, width)
    assert Filters(preset=preset).span(NOW + timedelta(days=1), NOTHING).start == start + timedelta(days=1)


@pytest.mark.parametrize(
    "preset, zone, start, end, before",
    [
        ("today", "UTC", "2026-03-10", None, ("2026-03-09", "2026-03-09T12:08")),
        ("today", "Asia/Kolkata", "2026-03-09T18:30", None, ("2026-03-08T18:30", "2026-03-09T12:08")),
        ("yesterday", "UTC", "2026-03-09", "2026-03-10", ("2026-03-08", "2026-03-09")),
        ("week", "UTC", "2026-03-09", None, ("2026-03-02", "2026-03-03T12:08")),
        ("month", "UTC", "2026-03-01", None, ("2026-02-01", "2026-02-10T12:08")),
        ("last-month", "UTC", "2026-02-01", "2026-03-01", ("2026-01-01", "2026-02-01")),
        ("year", "UTC", "2026-01-01", None, ("2025-01-01", "2025-03-10T12:08")),
        # Clocks went forward on 8 March, so the week before has an hour more between its midnights and now.
        ("week", "America/New_York", "2026-03-09T04:00", None, ("2026-03-02T05:00", "2026-03-03T13:08")),
    ],
)
def test_units_of_the_calendar_are_compared_with_the_same_part_of_the_unit_before(
    preset: str, zone: str, start: str, end: str | None, before: tuple[str, str]
) -> None:
    filters = Filters(preset=preset, zone=zone)
    span = filters.span(NOW, NOTHING)
    assert (span.start, span.end) == (moment(start), end and moment(end))

    known = Extent(datetime(2020, 1, 1, tzinfo=UTC), NOW)
    period = earlier(filters.selection(span), known, NOW)
    assert period is not None
    assert (period.start, period.end) == tuple(map(moment, before))


def test_the_finest_bin_of_a_table_bounds_the_bins() -> None:
    assert Filters(preset="1h").span(NOW, NOTHING, finest=300).bin_seconds == 300


def test_all_and_custom_choose_bins_by_their_length() -> None:
    archive = Extent(NOW - timedelta(days=4 * 365), NOW - timedelta(days=3 * 365))
    custom = Filters(preset="custom", start=NOW - timedelta(hours=2), end=NOW)

    assert Filters(preset="all").span(NOW, archive).bin_seconds == 7 * 86_400
    assert Filters(preset="all").span(NOW, archive).where("t") == ()
    assert custom.span(NOW, NOTHING).bin_seconds == 60
    assert custom.where("t", custom.span(NOW, NOTHING)) == (
        Where("t", ">=", NOW - timedelta(hours=2)),
        Where("t", "<", NOW),
    )


def test_a_site_is_a_filter_and_all_sites_are_none() -> None:
    assert Filters("shop").sites() == (Where("site", "=", "shop"),)
    assert Filters(None).sites() == ()


def bar() -> None:
    import streamlit as st

    from app.dashboard.controls import bar
    from tidemark.figures.extents import Extent

    chosen = bar.choose(["a", "b"], {"a": Extent(), "b": Extent()}, page="Countries", ranged=True)
    st.text(f"{chosen.site} {chosen.preset} {chosen.zone} {chosen.start} {chosen.end}")


def test_the_address_sets_the_filters() -> None:
    at = AppTest.from_function(bar)
    at.query_params.update({"site": "b", "range": "7d", "times": "UTC"})

    assert at.run().text[0].value == "b 7d UTC None None"


def test_a_custom_range_comes_from_the_address() -> None:
    at = AppTest.from_function(bar)
    at.query_params.update({"range": "custom", "from": "2026-03-01T10:00", "until": "2026-03-02T11:30"})

    assert at.run().text[0].value == "None custom UTC 2026-03-01 10:00:00+00:00 2026-03-02 11:30:00+00:00"


def test_a_time_of_the_address_may_have_seconds_and_an_offset() -> None:
    at = AppTest.from_function(bar)
    at.query_params.update({"from": "2026-03-01T10:00:00 01:00", "until": "2026-03-02T11:30:15Z"})

    assert at.run().text[0].value == "None custom UTC 2026-03-01 09:00:00+00:00 2026-03-02 11:30:15+00:00"


@pytest.mark.parametrize(
    "address, reason",
    [
        ({"site": "<img src=x>"}, "There is no site '<img src=x>'"),
        ({"range": "9y"}, "range=9y is none of"),
        ({"times": "x"}, "times=x is none of Local, UTC."),
        ({"range": "custom", "from": "noon"}, "'noon' is no time"),
        ({"from": "2026-03-02", "until": "2026-03-01"}, "The range ends before it begins."),
    ],
)
def test_what_cannot_be_followed_of_an_address_is_reported(address: dict[str, str], reason: str) -> None:
    at = AppTest.from_function(bar)
    at.query_params.update(address)

    assert at.run().text[0].value.startswith("None ")
    assert reason in "".join(at.session_state["address refused"])


def test_a_choice_is_written_to_the_address_and_an_earlier_address_brings_it_back() -> None:
    at = AppTest.from_function(bar)
    at.query_params.update({"site": "b"})
    at.run().selectbox(key="range").set_value("7d").run()
    assert at.query_params["range"] == "7d" and at.text[0].value == "b 7d UTC None None"

    del at.query_params["range"]  # as the browser does on Back
    assert at.run().text[0].value == "b 24h UTC None None"


def conditions() -> None:
    import streamlit as st

    from app.dashboard.controls import bar

    chosen = bar.choose([], {}, page="Overview", ranged=True)
    st.text(" and ".join(map(str, chosen.conditions)))
    st.text(chosen.comparison)


def test_conditions_come_from_the_address_and_one_that_cannot_be_read_is_reported() -> None:
    at = AppTest.from_function(conditions)
    texts = ["country=DE", "path^/a|b", "colour=red", "country=US"]
    at.query_params.update({"filter": texts, "compare": "A year before"})

    assert [t.value for t in at.run().text] == ["country=DE|US and path^/a|b", "year"]
    assert len(at.warning) == 1 and at.warning[0].value.startswith("This filter is not used")


def test_a_condition_is_added_by_the_form_and_removed_by_its_cross() -> None:
    at = AppTest.from_function(conditions).run()
    at.selectbox(key="new-field").set_value("device")
    at.text_input(key="new-value").set_value("mobile")
    next(b for b in at.button if b.label == "Add filter").click().run()
    assert at.text[0].value == "device=mobile"

    at.multiselect(key="filter").unselect("device=mobile").run()
    assert at.text[0].value == ""
