"""Filters as text, times as text, and the period that a range is compared with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidemark.figures.comparison import Change, earlier
from tidemark.figures.extents import Extent
from tidemark.figures.selection import Filter, Selection, SelectionError, filters_of, moment

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    "text, parsed",
    [
        ("country=DE", Filter("country", "is", ("DE",))),
        ("Country = DE", Filter("country", "is", (" DE",))),
        ("path!=/a|/b", Filter("path", "is not", ("/a", "/b"))),
        ("path~=b", Filter("path", "contains", ("=b",))),
        ("entry_page^/x|y", Filter("entry_page", "starts with", ("/x", "y"))),
        (r"path=a\|b\\|c", Filter("path", "is", ("a|b\\", "c"))),
        ("path=a=b&c", Filter("path", "is", ("a=b&c",))),
        ("source=", Filter("source", "is", ("",))),
        ("status^5", Filter("status", "starts with", ("5",))),
    ],
)
def test_a_filter_is_read_from_its_text_and_written_again(text: str, parsed: Filter) -> None:
    assert Filter.parse(text) == parsed
    assert Filter.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text, message",
    [
        ("colour=red", "no field 'colour' to filter by; there are country, host"),
        ("country", "is no filter"),
        ("status=abc", "a status is a number, not 'abc'"),
        ("path~", "needs a text to look for"),
        ("path~caf\udce9", "is not UTF-8"),
    ],
)
def test_what_is_no_filter_is_reported_in_one_line(text: str, message: str) -> None:
    with pytest.raises(SelectionError, match=message) as caught:
        Filter.parse(text)
    assert "\n" not in str(caught.value)


def test_repeated_values_of_a_field_are_alternatives() -> None:
    result = filters_of(["country=DE", "path~a", "country=US|DE", "path~b", "path~a", "country!=FR"])

    assert list(map(str, result)) == ["country=DE|US", "path~a", "path~b", "country!=FR"]


def test_times_are_utc_unless_they_have_an_offset_or_a_zone() -> None:
    assert moment("2026-03-10") == datetime(2026, 3, 10, tzinfo=UTC)
    assert moment("2026-03-10T13:00+01:00") == NOON
    assert moment("2026-03-10T13:00", "Europe/Berlin") == NOON
    with pytest.raises(SelectionError, match="is no time"):
        moment("yesterday")


def compared(start: datetime, end: datetime | None, kind: str, extent: Extent, clock: datetime) -> object:
    result = earlier(Selection("s", start, end, comparison=kind), extent, clock)  # type: ignore[arg-type]
    return None if result is None else (result.start, result.end)


def test_a_range_is_compared_with_the_one_before_and_with_last_year() -> None:
    extent = Extent(NOON - timedelta(days=400), NOON)
    start, end = NOON - 30 * HOUR, NOON - 20 * HOUR

    assert compared(start, end, "previous", extent, NOON) == (start - 10 * HOUR, start)
    assert compared(start, end, "year", extent, NOON) == (
        start - timedelta(days=364),
        end - timedelta(days=364),
    )
    assert (start - timedelta(days=364)).weekday() == start.weekday()
    assert compared(start, end, "", extent, NOON) is None


def test_a_range_that_reaches_now_is_compared_with_the_same_elapsed_part() -> None:
    """Now is the newest event to the full minute, at most the clock."""
    newest = NOON - HOUR - timedelta(seconds=10)
    extent = Extent(NOON - timedelta(days=400), newest)
    midnight = NOON - 12 * HOUR
    day = timedelta(days=1)

    assert compared(midnight, midnight + day, "previous", extent, NOON) == (midnight - day, NOON - HOUR - day)
    assert compared(midnight, None, "previous", extent, NOON) == (midnight - 11 * HOUR, midnight)
    ahead = Extent(extent.first, NOON + 5 * HOUR)
    assert compared(midnight, midnight + day, "previous", ahead, NOON) == (
        midnight - day,
        NOON + timedelta(minutes=1) - day,
    )


def test_nothing_is_compared_with_a_time_before_the_first_line() -> None:
    start, end = NOON - 10 * HOUR, NOON
    assert compared(start, end, "previous", Extent(start - 10 * HOUR, end), NOON) is not None
    late = Extent(start - 10 * HOUR + timedelta(seconds=1), end)
    assert compared(start, end, "previous", late, NOON) is None
    assert compared(start, end, "previous", Extent(), NOON) is None
    assert earlier(Selection(comparison="previous"), Extent(start, end), NOON) is None


def test_changes() -> None:
    assert (str(Change(15, 10)), Change(15, 10).ratio) == ("+50.0%", 0.5)
    assert str(Change(0, 10)) == "-100.0%"
    assert (str(Change(3, 0)), Change(3, 0).ratio) == ("new", None)
    assert str(Change(0, 0)) == str(Change(3, None)) == str(Change(None, 3)) == ""
