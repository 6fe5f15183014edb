"""Further notations of a time, and durations with a unit, in own formats."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidemark.parse.durations import with_unit
from tidemark.parse.time_forms import rewritten, with_time


@pytest.mark.parametrize(
    ("text", "order", "iso"),
    [
        ("2026/11/21 - 10:00:00", "", "2026-11-21T10:00:00"),
        ("2026/11/21:10:00:00.5 +01:00", "", "2026-11-21T10:00:00.5+01:00"),
        ("2026-11-21 10:00:00-05", "", "2026-11-21T10:00:00-0500"),
        ("2026-11-21 10:00:00.123 +0000 UTC", "", "2026-11-21T10:00:00.123+0000"),
        ("20261121T100000Z", "", "2026-11-21T10:00:00Z"),
        ("20261121 10:00:00", "", "2026-11-21T10:00:00"),
        ("[21.11.2026 10:00]", "", "2026-11-21T10:00:00"),
        ("2026-11-21 12:30:00 AM", "", "2026-11-21T00:30:00"),
        ("11/21/2026 1:02:03 PM", "mdy", "2026-11-21T13:02:03"),
        ("11/21/2026 12:02:03 PM", "mdy", "2026-11-21T12:02:03"),
        ("1/2/2026 10:00:00", "dmy", "2026-02-01T10:00:00"),
        ("1/2/2026 10:00:00", "mdy", "2026-01-02T10:00:00"),
        ("01-02-2026 10:00:00,250", "dmy", "2026-02-01T10:00:00.250"),
        ("21/Nov/2026:10:00:00 CET", "", "21/Nov/2026:10:00:00 +0100"),
        ("Sat Nov 21 10:00:00 EST 2026", "", "Sat Nov 21 10:00:00 -0500 2026"),
        ("2026-11-21 10:00:00.5MSK", "", "2026-11-21 10:00:00.5 +0300"),
        ("2026/11/21 10:00:00 PM JST", "", "2026-11-21T22:00:00+0900"),
        ("2026-11-21 10:00:00 +0000 CET", "", "2026-11-21T10:00:00+0000"),
        ("21/NOV/2026:10:00:00:123 +0000", "", "21/Nov/2026:10:00:00.123 +0000"),
        ("10/11/2026:10:00:00 -0000", "", "2026-10-11T10:00:00-0000"),
        ("21/11/2026:10:00:00 -0000", "", "2026-11-21T10:00:00-0000"),
        ("10/11/2026:10:00:00 +0000", "", "2026-11-10T10:00:00+0000"),
    ],
)
def test_a_time_in_another_notation_is_rewritten(text: str, order: str, iso: str) -> None:
    assert rewritten(pa.array([text, None, "2026-11-21T10:00:00Z"]), order).to_pylist() == [
        iso, None, "2026-11-21T10:00:00Z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["21/Nov/2026:10:00:00 +0000", "[2026-11-21 10:00:00]", "1795255200.123", "1795255200123456", "01/02/2026 10:00:00",
     "202611211", "21/Nov/2026:10:00:00 IST", "21/Nov/2026:10:00:00 BST", "-", ""],
)  # fmt: skip
def test_other_times_stay_as_they_are(text: str) -> None:
    assert rewritten(pa.array([text, "2026/11/21 - 10:00:00"])).to_pylist()[0] == text.strip("[]")


def test_an_hour_that_no_clock_has_is_no_time() -> None:
    assert rewritten(pa.array(["2026-11-21 13:00:00 PM"])).to_pylist() == ["2026-11-21T99:00:00"]


def test_a_time_in_parts_is_put_together() -> None:
    parts = {"date_mdy": pa.array(["11/21/2026"]), "clock": pa.array(["1:00:00"]), "half": pa.array(["PM"])}
    assert with_time(parts)["time"].to_pylist() == ["2026-11-21T13:00:00"]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("12ms", 12_000),
        ("1.5 s", 1_500_000),
        ("345µs", 345),
        ("12.345us", 12),
        ("1500ns", 2),
        ("2 seconds", 2_000_000),
        ("1m2.5s", 62_500_000),
        ("1h0m3s", 3_603_000_000),
        ("2m", 120_000_000),
        ("12", None),
        ("", None),
        ("-", None),
        ("ms", None),
    ],
)
def test_a_duration_with_its_unit(text: str, micros: int | None) -> None:
    assert with_unit(pa.array([text, None])).to_pylist() == [micros, None]
