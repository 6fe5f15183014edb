"""Bins of time in a zone's days, compared with pandas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from deltalake import write_deltalake

from app.dashboard.charts import processed
from app.dashboard.filters import Filters, Span
from app.dashboard.panel import Look
from tests.app import tables
from tests.app.lakehouse import DAYS, START
from tests.app.recounted import Noted, Scene, people, select
from tests.pipeline.without_spark import tables_of
from tidemark import reports
from tidemark.figures import overview, query, zones
from tidemark.figures.measures import LINES, RESPONSES, measured
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

DAY = 86_400
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "Pacific/Auckland")


@pytest.mark.parametrize("recount", [False, True])
@pytest.mark.parametrize("seconds", [3600, 6 * 3600, DAY])
@pytest.mark.parametrize("zone", ZONES)
def test_counts_by_the_days_of_a_zone(scene: Scene, zone: str, seconds: int, recount: bool) -> None:
    rows, lines = scene
    selection = replace(select(hours=None, recount=recount), zone=zone)

    found = overview.over_time(rows, selection, seconds)

    local = lines["event_time"].dt.tz_convert(zone)
    groups = lines.groupby(local.dt.floor(f"{seconds}s").dt.tz_convert("UTC"))
    wanted = {at: (len(of), people(of)) for at, of in groups}
    assert {
        at: (n, v) for at, n, v in found[["bin", "requests", "visitors"]].itertuples(index=False)
    } == wanted


@pytest.mark.parametrize(
    "zone, table", [("Europe/Berlin", "gold/responses"), ("Asia/Kolkata", "silver/requests")]
)
def test_hours_are_added_up_in_a_zone_of_whole_hours_and_silver_is_read_in_another(
    scene: Scene, zone: str, table: str
) -> None:
    rows, lines = scene
    noted = Noted(rows.reader)
    selection = replace(select(hours=(0, DAYS * 24)), zone=zone)

    found = measured(noted, selection, LINES.of(RESPONSES), ["requests"], by=["status"], bin_seconds=DAY)

    assert noted.tables == [table]
    local = lines["event_time"].dt.tz_convert(zone).dt.floor("1D").dt.tz_convert("UTC")
    wanted = lines.groupby([local, "status"]).size().to_dict()
    assert {(at, status): n for at, status, n in found.itertuples(index=False)} == wanted


def test_a_day_on_which_clocks_change_is_longer_or_shorter() -> None:
    start, end = datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 10, 26, 12, tzinfo=UTC)
    every = zones.starts(start, end, DAY, "Europe/Berlin")
    assert [f"{at:%d %H}" for at in every] == ["23 22", "24 22", "25 23"]
    assert zones.window(every[1], DAY, "Europe/Berlin") == [
        every[1].to_pydatetime(),
        every[2].to_pydatetime(),
    ]

    moments = pd.Series(pd.date_range("2026-03-28", "2026-03-31", freq="17min", tz="UTC"))
    first, last = moments.iloc[0].to_pydatetime(), moments.iloc[-1].to_pydatetime()
    shifts = zones.shifts("Europe/Berlin", DAY, first, last)
    seconds = moments.astype("datetime64[s, UTC]").astype("int64").to_numpy()
    walls = pd.Series(pd.to_datetime(zones.floors(seconds, DAY, shifts), unit="s", utc=True))
    found = zones.to_utc(walls, "Europe/Berlin")
    assert found.tolist() == [at.tz_convert("Europe/Berlin").normalize().tz_convert("UTC") for at in moments]
    assert zones.shifts("Europe/Berlin", 3600, first, last) is None
    assert zones.floor(START + timedelta(minutes=20), 3600, "Asia/Kolkata") == START - timedelta(minutes=30)


def test_clocks_that_change_within_the_range_are_a_case_of_the_query(scene: Scene) -> None:
    """The days before and after the change are days of the zone, in any engine's SQL."""
    rows, lines = scene
    assert isinstance(rows, Rows)
    selection = replace(select(hours=(-400, 800), recount=True), zone="Europe/Berlin")
    found = overview.over_time(rows, selection, DAY)
    local = lines["event_time"].dt.tz_convert("Europe/Berlin").dt.floor("1D").dt.tz_convert("UTC")
    assert dict(zip(found["bin"], found["requests"], strict=True)) == lines.groupby(local).size().to_dict()


def test_processing_times_are_counted_in_the_zones_bins_from_the_first_one_on(tmp_path: Path) -> None:
    now, zone = datetime(2026, 10, 29, 9, tzinfo=UTC), "Europe/Berlin"  # the clocks changed on the 25th
    moments = pd.Series(pd.date_range(now - timedelta(days=9), now, freq="17min"))
    rows = [tables.progress("requests", i, at.to_pydatetime(), lag=i) for i, at in enumerate(moments)]
    tables.write(tmp_path, "quality/progress", rows)

    def found(preset: str, now: datetime) -> tuple[Span, dict[pd.Timestamp, int]]:
        look = Look(DeltaReader(tmp_path), Filters(preset=preset, zone=zone), now, "")
        columns = {"lag": query.greatest("lag")}
        span, counts = processed.binned(look, "quality/progress", "recorded_at", columns, by=[])
        return span, counts.set_index("bin")["lag"].to_dict()

    span, counts = found("30d", now)
    assert span == Span(datetime(2026, 10, 20, 4, tzinfo=UTC), now, 21_600)
    local = moments.dt.tz_convert(zone).dt.tz_localize(None).dt.floor("6h")
    wanted = moments.groupby(local.dt.tz_localize(zone).dt.tz_convert("UTC")).apply(lambda of: of.index.max())
    assert counts == wanted.to_dict()

    started = moments.iloc[0].to_pydatetime()
    span, _ = found("7d", started + timedelta(minutes=10))
    assert (span.start, span.bin_seconds) == (started, 15)


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], tuple[Path, int]]:
    """Makes a home that has a request of each minute of a day, and of the hours before and after, with the offsets
    that the zone's clocks have at these times. Returns it with the number of the day's requests."""

    def made(zone: str, day: str) -> tuple[Path, int]:
        clock, date = ZoneInfo(zone), datetime.fromisoformat(day)
        start, end = ((date + timedelta(days=days)).replace(tzinfo=clock).astimezone(UTC) for days in (0, 1))
        moments = [
            start + timedelta(minutes=n) for n in range(-180, int((end - start).total_seconds() // 60) + 180)
        ]
        lines = [
            f'203.0.113.7 - - [{each.astimezone(clock):%d/%b/%Y:%H:%M:%S %z}] "GET /a HTTP/1.1" 200 5 "-" "Mozilla/5.0"'
            for each in moments
        ]
        home = tmp_path_factory.mktemp("day")
        for name, table in tables_of([("default", line.encode()) for line in lines]).items():
            write_deltalake(str(home / "tables" / name.replace(".", "/")), table)
        return home, sum(start <= each < end for each in moments)

    return made


@pytest.mark.parametrize(
    "zone, day, hours",
    [
        ("America/New_York", "2025-11-02", 25),
        ("America/New_York", "2025-03-09", 23),
        ("Europe/Berlin", "2025-03-30", 23),
        ("Asia/Kathmandu", "2025-03-30", 24),
        ("Australia/Lord_Howe", "2025-04-06", 24.5),
    ],
)
def test_a_day_on_which_clocks_change_has_each_request_once(
    zone: str, day: str, hours: float, minutes: Callable[[str, str], tuple[Path, int]]
) -> None:
    home, requests = minutes(zone, day)
    assert requests == hours * 60
    following = f"{datetime.fromisoformat(day) + timedelta(days=1):%Y-%m-%d}"
    asked = {"home": home, "start": day, "end": following, "tz": zone}
    counted, pages = reports.overview(**asked).json, reports.pages(**asked).json
    assert counted["requests"] == pages["rows"][0]["pageviews"] == requests

    clock = ZoneInfo(zone)
    start, end = (datetime.fromisoformat(each).replace(tzinfo=clock) for each in (day, following))
    found = overview.over_time(Rows(DeltaReader(home)), Selection(None, start, end, zone), zones.HOUR)
    assert found["bin"].is_unique and found["requests"].sum() == requests
    if hours == int(hours):
        assert found["requests"].tolist() == [60] * int(hours)
