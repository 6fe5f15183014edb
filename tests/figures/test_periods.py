"""Days, weeks and months of a zone, also when its clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest

from tidemark.errors import SettingError
from tidemark.figures.periods import Every, latest, of
from tidemark.settings.mails import Mailing, mailings_of

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("every", "first", "last", "text"),
    [
        ("day", date(2026, 11, 25), date(2026, 11, 26), "Wednesday, 25 November 2026"),
        ("week", date(2026, 11, 23), date(2026, 11, 30), "23 to 29 November 2026"),
        ("month", date(2026, 11, 1), date(2026, 12, 1), "November 2026"),
    ],
)
def test_a_day_lies_in_a_period(every: Every, first: date, last: date, text: str) -> None:
    period = of(every, date(2026, 11, 25), "UTC")
    assert (period.first, period.last, str(period)) == (first, last, text)
    assert period.before.last == first


def test_days_are_as_long_as_the_clocks_make_them() -> None:
    days = [of("day", date(2026, *day), BERLIN) for day in ((3, 29), (3, 30), (10, 25))]
    hours = [(day.end - day.start) / timedelta(hours=1) for day in days]
    assert hours == [23, 24, 25]
    assert str(of("week", date(2026, 3, 29), BERLIN).before) == "16 to 22 March 2026"


@pytest.mark.parametrize(
    ("last", "at", "due"),
    [
        (
            date(2026, 3, 29),
            time(2, 30),
            datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        ),  # the clocks skip this time
        (date(2026, 10, 25), time(2, 30), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),  # the first of two
        (date(2026, 11, 1), time(8), datetime(2026, 11, 1, 7, tzinfo=UTC)),
    ],
)
def test_a_report_is_due_on_the_clocks_of_the_zone(last: date, at: time, due: datetime) -> None:
    day = of("day", last - timedelta(days=1), BERLIN)
    assert day.due(at) == due
    assert latest("day", at, BERLIN, due) == day
    assert latest("day", at, BERLIN, due - timedelta(seconds=1)) == day.before


def test_every_day_is_due_once_while_the_clocks_change() -> None:
    """Minute by minute over both changes."""
    for start in (datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 10, 24, tzinfo=UTC)):
        result = [
            latest("day", time(2, 30), BERLIN, start + timedelta(minutes=n)).first for n in range(3 * 1440)
        ]
        assert result == sorted(result) and len(set(result)) == 4


def test_the_tables_of_the_settings_are_validated() -> None:
    result = mailings_of({"monday": {"site": "shop", "to": ["$TEAM"]}}, "tidemark.toml")
    assert result == {"monday": Mailing("shop", "week", "08:00", ("$TEAM",))}
    for values, problem in (
        ({"every": "year"}, "tidemark.toml: unknown period 'year' of report x"),
        ({"at": "25:00"}, "at = '25:00' of report x"),
        ({"at": "08:00+01:00"}, "at = '08:00"),
        ({"filter": ["nothing"]}, "unusable filter: 'nothing' is no filter"),
        ({"when": "now"}, "unknown setting 'when' of reports.x"),
        ({"to": "json://5ecre7"}, r"to of reports.x must be a list of texts, not \*\*\*"),
    ):
        with pytest.raises(SettingError, match=problem.replace("(", r"\(")):
            mailings_of({"x": values}, "tidemark.toml")
