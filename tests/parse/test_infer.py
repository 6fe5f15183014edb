"""Inference: layouts of access logs that no format reads, and their fields."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.parse.infer_cases import CASES, Case, Request, requests
from tidemark.parse.custom import own_format, reading_of
from tidemark.parse.detect import fields
from tidemark.parse.infer import Ambiguous, Inferred, infer
from tidemark.parse.text import Lines
from tidemark.parse.values import address
from tidemark.settings import Settings

COLUMNS = {
    "time": "event_time", "ip": "client_ip", "method": "method", "path": "path", "query": "query", "status": "status",
    "bytes": "bytes", "referrer": "referrer", "agent": "user_agent", "host": "host", "protocol": "protocol",
    "user": "remote_user", "forwarded": "forwarded",
}  # fmt: skip
DURATIONS = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}


# Lines that are no access logs, by what they are.
NOISE = dict(
    part.split("\n", 1)
    for part in Path(__file__).with_name("noise.txt").read_text(encoding="utf-8").split("=== ")[1:]
)


def inferred(lines: Sequence[str]) -> Inferred:
    result = infer([line.encode() for line in lines])
    assert isinstance(result, Inferred), result
    return result


def read(result: Inferred, lines: Sequence[str]) -> list[dict[str, Any]]:
    """The columns of lines, as the inferred format reads them."""
    format = own_format("mine", result.format)
    columns = dict(format.read(Lines.of(pa.array(lines), np.ones(len(lines), bool))).columns)
    columns["client_ip"] = address(columns["client_ip"])
    return pa.table(dict(columns)).to_pylist()


def expected(request: Request) -> dict[str, Any]:
    """The columns of a request that a line may have."""
    none = {"-": None}
    return {
        "client_ip": request.ip, "method": request.method, "path": request.path, "query": request.query or None,
        "status": request.status, "bytes": request.size, "user_agent": request.agent, "host": request.host,
        "referrer": none.get(request.referrer, request.referrer), "protocol": "HTTP/1.1",
    }  # fmt: skip


def assert_read(columns: dict[str, Any], request: Request, names: frozenset[str]) -> None:
    """The line has these columns of the request, and the others have no other value than the request's."""
    assert columns["event_time"] is not None
    assert abs(columns["event_time"] - request.time) < timedelta(seconds=1)
    required = {COLUMNS[each] for each in names if each in COLUMNS}
    for name, value in expected(request).items():
        if name in required:
            assert columns[name] == value, name
        else:
            assert columns[name] in (None, value) or (name == "bytes" and not columns[name]), name
    unit = next((DURATIONS[name] for name in names if name in DURATIONS), None)
    assert unit is None or columns["duration_us"] is not None
    if columns["duration_us"] is not None:
        rounding = 1 if unit == 1 else 600
        assert abs(columns["duration_us"] - request.micros) <= rounding


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_layout_is_inferred_and_reads_its_lines(case: Case) -> None:
    log = requests()
    lines = [case.line(request) for request in log]
    result = inferred([case.header, *lines] if case.header else lines)
    assert result.share > 0.99 and result.example in lines
    for columns, request in zip(read(result, lines), log, strict=True):
        assert_read(columns, request, case.columns)


@pytest.mark.parametrize("copies", [1, 50])
@pytest.mark.parametrize("name", NOISE)
def test_lines_that_are_no_access_log_have_no_layout(name: str, copies: int) -> None:
    lines = NOISE[name].strip("\n").encode().split(b"\n")
    assert infer(lines * copies) is None


def test_bytes_that_are_no_text_have_no_layout() -> None:
    assert infer([bytes((row * 37 + place * 11) % 256 for place in range(40)) for row in range(20)]) is None
    assert infer([]) is None


def ambiguous(lines: Sequence[str]) -> Ambiguous:
    result = infer([line.encode() for line in lines])
    assert isinstance(result, Ambiguous), result
    return result


def on(day: int, month: int, hour: int = 10) -> list[str]:
    """Lines of a day with numbers only."""
    return [f"{day:02}/{month:02}/2026 {hour}:00:{n:02} 203.0.113.{n + 1} GET /a{n} 200" for n in range(30)]


def test_a_date_that_may_be_either_asks_for_the_order_of_its_numbers() -> None:
    result = ambiguous(on(3, 5))
    assert result.question == "are the first numbers of 03/05/2026 day and month, or month and day?"
    assert [reading.format.layout for reading in result.readings] == [
        ("$date_dmy $clock $client_ip $method $target $status",),
        ("$date_mdy $clock $client_ip $method $target $status",),
    ]


@pytest.mark.parametrize(
    ("lines", "order"),
    [
        (on(13, 5), "dmy"),  # there is no month 13
        (on(5, 13), "mdy"),
        (on(30, 9) + on(1, 10) + on(2, 10), "dmy"),
        (on(1, 12, 23) + on(2, 12, 0), "dmy"),  # by the other order there would be nothing for a month
        (on(12, 1, 23) + on(12, 2, 0), "mdy"),
        (on(1, 2) + on(2, 2) + on(1, 3), "dmy"),  # the other order goes back
    ],
)
def test_a_day_that_no_month_is_and_the_order_of_lines_decide(lines: list[str], order: str) -> None:
    assert inferred(lines).format.layout[0].startswith(f"$date_{order} $clock ")


@pytest.mark.parametrize(("zone", "hours"), [("CEST", 2), ("PST", -8), ("IST", None), ("HKT", None)])
def test_the_name_of_a_zone_behind_a_time_is_not_left_out(zone: str, hours: int | None) -> None:
    log = requests()
    lines = [f'[{r.time:%d/%b/%Y:%H:%M:%S} {zone}] {r.ip} "{r.line}" - {r.status}' for r in log]
    if hours is None:
        assert infer([line.encode() for line in lines]) is None
    else:
        [row, *_] = read(inferred(lines), lines)
        assert row["event_time"] == log[0].time.replace(microsecond=0) - timedelta(hours=hours)


def test_two_columns_that_may_be_the_status_ask_which_it_is() -> None:
    result = ambiguous(
        [f"{r.iso} {r.ip} {r.method} {r.target} {r.status} {404 - r.number % 2}" for r in requests()]
    )
    assert result.question.startswith("which is the status, a column (")
    assert [reading.shown for reading in result.readings] == [
        "$time $client_ip $method $target $status $_6", "$time $client_ip $method $target $_5 $status",
    ]  # fmt: skip


def test_two_addresses_and_two_times_ask_which_it_is() -> None:
    log = requests()
    result = ambiguous(
        [f"{r.iso} {r.ip} 198.51.100.{r.number % 9} {r.method} {r.target} {r.status}" for r in log]
    )
    assert result.question.startswith("which is the client's address, ")
    result = ambiguous(
        [
            f"{r.iso} {r.time + timedelta(seconds=9):%Y-%m-%dT%H:%M:%SZ} {r.ip} {r.line!r} {r.status}"
            for r in log
        ]
    )
    assert result.question.startswith("which time is that of the request, ")


@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ([0.001, 0.0, 0.25, 1.5], "duration_s"),
        ([0.001234, 0.010234, 0.25, 2.123456], "duration_s"),
        ([312.25, 45.5, 1012.75, 61.125], "duration_ms"),
        ([1, 12, 140, 75], "duration_ms"),
        ([812_345, 52_000, 1_400_200, 9_102], "duration_us"),
        ([3.25, 1.5, 12.75, 2.125], None),  # seconds or milliseconds
        ([800, 520, 1_400, 910], None),  # milliseconds or microseconds
    ],
)
def test_the_unit_of_a_duration_follows_from_its_numbers_or_is_left_out(
    numbers: list[float], field: str | None
) -> None:
    result = inferred(
        [f"{r.iso} {r.ip} {r.line!r} {r.status} took={numbers[r.number % 4]}" for r in requests()]
    )
    assert result.format.layout[0].endswith(f"took=${field or '_took'}")
    assert bool(result.notes) is (field is None)


def test_numbers_that_may_be_a_size_or_a_duration_are_left_out() -> None:
    log = requests()
    result = inferred([f"{r.iso} {r.ip} {r.line!r} {r.status} {r.micros % 800}" for r in log])
    assert result.format.layout == ("$time $client_ip '$request' $status $_5",)
    assert "may be the size of the answer or a duration: left out" in result.notes[0]


def test_a_layout_that_less_than_95_of_100_lines_have_is_not_used() -> None:
    lines = [CASES[0].line(request) for request in requests(100)]
    assert inferred([*lines[:96], *["some note"] * 4]).share == pytest.approx(0.96)
    assert infer([line.encode() for line in [*lines[:94], *["some note"] * 6]]) is None


@pytest.mark.parametrize(
    "line", ["[ (" * 1_300, '" ' * 2_000, "a=1 b: 2, " * 400, "|;" * 2_000, "x " * 30_000]
)
def test_lines_with_very_many_fields_have_no_layout(line: str) -> None:
    assert infer([line.encode()] * 50) is None


def test_lines_in_an_envelope_have_the_layout_of_the_line_inside() -> None:
    case, log = CASES[0], requests()
    lines = [json.dumps({"log": case.line(r) + "\n", "stream": "stdout", "time": r.iso}) for r in log]
    assert inferred(lines).format.layout == inferred([case.line(r) for r in log]).format.layout


def test_the_day_in_front_of_a_line_is_no_size() -> None:
    lines = [f"{r.time:%b %d %H:%M:%S} web1 shop[7]: {CASES[0].line(r)}" for r in requests()]
    assert inferred(lines).format.layout == inferred([CASES[0].line(r) for r in requests()]).format.layout


@pytest.mark.parametrize("logger", ["uvicorn.access", "org.example.web.AccessLog", "app.middleware"])
def test_the_name_of_a_logger_is_no_host(logger: str) -> None:
    log = requests()
    result = inferred([f'{r.iso} INFO {logger} {r.ip} "{r.line}" {r.status}' for r in log])
    assert "$host" not in str(result.format.layout)
    named = inferred([f'{r.iso} INFO www.example.access.org {r.ip} "{r.line}" {r.status}' for r in log])
    assert "$host" in str(named.format.layout)


def test_what_is_inferred_is_detected_and_says_so_in_its_declaration() -> None:
    case, log = CASES[0], requests(50)
    result = inferred([case.line(r) for r in log])
    reading = reading_of(dataclasses.replace(Settings(), formats={"mine": result.format}))
    lines = {"value": pa.array([case.line(r).encode() for r in log])}
    columns = fields(lines | dict.fromkeys(("format", "fields", "site"), pa.nulls(50, pa.string())), reading)
    assert set(columns["read_as"].to_pylist()) == {"mine"}
