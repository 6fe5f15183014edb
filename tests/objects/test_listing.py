"""Which objects are listed, and where the next listing starts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidemark.objects.listing import Listed, Selection, Start

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def at(hour: int, key: str = "", size: int = 1) -> Listed:
    moment = BEGIN + timedelta(hours=hour)
    return Listed(key or f"cdn/E1.{moment:%Y-%m-%d-%H}.gz", size, "e", moment)


@pytest.mark.parametrize(
    "selection, size, selected",
    [
        (Selection(), 1, True),
        (Selection(), 0, False),  # A folder's mark.
        (Selection(where="*.gz"), 1, True),
        (Selection(where="E1.2026-11-01-*"), 1, True),
        (Selection(where="cdn/E1*"), 1, True),
        (Selection(where="*.log"), 1, False),
        (Selection(since=BEGIN), 1, True),
        (Selection(since=BEGIN + timedelta(seconds=1)), 1, False),
    ],
)
def test_a_selection(selection: Selection, size: int, selected: bool) -> None:
    assert selection.has(at(0, size=size), "cdn/") == selected


def after(objects: list[Listed], *, unfinished: int = -1) -> str:
    start = Start()
    for number, each in enumerate(objects):
        start.see(each, finished=number != unfinished)
    return start.after


def test_keys_that_sort_by_time_are_listed_from_a_day_before_the_newest() -> None:
    objects = [at(hour) for hour in range(0, 72, 2)]
    assert after(objects) == objects[22].key  # of hour 44; the newest is of hour 70
    assert after(objects[:10]) == ""


def test_an_object_that_is_not_finished_stays_in_the_listing() -> None:
    objects = [at(hour) for hour in range(72)]
    assert after(objects, unfinished=5) == objects[4].key


def test_other_keys_are_all_listed() -> None:
    hosts = [at(hour, f"{host}/{hour:03}") for host in "ab" for hour in range(72)]
    assert after(hosts) == ""
    assert after([at(hour) for hour in reversed(range(72))]) == ""
