"""`tidemark explain`: kinds of lines, their fields, and what lines of no format lack."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidemark.cli import tidemark
from tidemark.errors import InputError

COMBINED = (
    '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET /docs/?page=2 HTTP/1.1" 200 512 "-" "curl/8.5.0"'
)
CADDY = (
    '{"ts":1795255200.123456,"request":{"remote_ip":"203.0.113.7","proto":"HTTP/2.0","method":"GET","host":"a.example",'
    '"uri":"/"},"size":5,"status":200}'
)


def explain(path: Path, *options: str) -> list[str]:
    """What is printed about each kind of line."""
    result = CliRunner().invoke(tidemark, ["explain", str(path), *options], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output.strip("\n").split("\n\n") if result.output else []


def log(directory: Path, *lines: str | bytes) -> Path:
    path = directory / "some.log"
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines) + b"\n")
    return path


def test_each_kind_is_counted_with_the_fields_of_its_first_line(tmp_path: Path) -> None:
    combined, caddy = explain(log(tmp_path, COMBINED, CADDY, COMBINED, COMBINED.replace("512", "7")))
    assert combined.splitlines() == [
        "3 lines of combined",
        "  client_ip    203.0.113.7",
        "  event_time   2026-11-21T10:00:00Z",
        "  method       GET",
        "  path         /docs/",
        "  query        page=2",
        "  protocol     HTTP/1.1",
        "  status       200",
        "  bytes        512",
        "  user_agent   curl/8.5.0",
        f"  {COMBINED}",
    ]
    assert caddy.splitlines()[:3] == [
        "1 line of caddy_json",
        "  host         a.example",
        "  client_ip    203.0.113.7",
    ]


@pytest.mark.parametrize(
    "line, message",
    [
        (COMBINED.replace(" 200 512", " OK"), "matches no format; nearest: combined, differs at status"),
        (COMBINED.replace('"GET', "GET"), "matches no format; nearest: combined, differs at time"),
        (CADDY.replace("status", "state"), "matches no format; nearest: caddy_json, differs at status"),
        (CADDY[:-1] + ";}", "matches no format"),
        ("Hello, world", "matches no format"),
        ("", "is empty"),
        (b"\xff", "matches no format"),
        ("a" * 70_000, "is too long"),
    ],
)
def test_a_line_of_no_format_names_the_nearest_one_and_what_it_lacks(
    line: str | bytes, message: str, tmp_path: Path
) -> None:
    [kind] = explain(log(tmp_path, line))
    assert kind.splitlines()[0] == f"1 line rejected: {message}"


@pytest.mark.parametrize(
    "line, fault",
    [
        (COMBINED.replace("21/Nov", "31/Nov"), "has no valid time"),
        (COMBINED.replace(" 200 ", " 99 "), "has no valid status"),
    ],
)
def test_a_line_with_a_bad_field_names_it(line: str, fault: str, tmp_path: Path) -> None:
    [kind] = explain(log(tmp_path, line))
    assert kind.splitlines()[0] == f"1 line of combined, rejected: {fault}"


def test_lines_without_an_address_or_a_request_say_why(tmp_path: Path) -> None:
    line = '{} - - [21/Nov/2026:10:00:00 +0000] "{}" {} 150 "-" "-"'
    read = line.format("203.0.113.7", "GET / HTTP/1.1", 200)
    tls, unknown = line.format("203.0.113.7", r"\x16\x03\x01", 400), line.format("-", "-", "000")
    kinds = explain(log(tmp_path, read, read, read, tls, tls, unknown))
    assert [kind.splitlines()[0] for kind in kinds] == [
        "3 lines of combined", "2 lines of combined", "1 line of combined",
    ]  # fmt: skip
    assert "NULL" not in kinds[0]
    assert "  method       NULL: the request is not one of HTTP, or the format has no methods" in kinds[1]
    assert "  path         NULL: the request is not one of HTTP" in kinds[1]
    assert "  client_ip    NULL: neither an address nor a host name stands there" in kinds[2]
    assert "  status       NULL: the line says that there was none" in kinds[2]


def test_envelopes_compressed_files_and_named_formats(tmp_path: Path) -> None:
    path = tmp_path / "some.log.gz"
    path.write_bytes(gzip.compress(f"<190>Nov 21 10:00:00 web1 nginx: {COMBINED}\n".encode() * 2))
    assert explain(path)[0].splitlines()[0] == "2 lines of combined in an envelope"
    assert explain(path, "--format", "caddy_json")[0].startswith("2 lines rejected: matches no format")


def test_a_w3c_log_is_read_by_its_header(tmp_path: Path) -> None:
    header = "#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status sc-substatus"
    line = "2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 0"
    [kind] = explain(log(tmp_path, header, line, line))
    assert kind.splitlines()[:2] == ["2 lines of iis_w3c", "  client_ip    203.0.113.7"]
    [lost] = explain(log(tmp_path, line))
    assert lost.splitlines()[0] == "1 line rejected: is from a W3C log whose header is missing"


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.log"):
        explain(tmp_path / "none.log")
    (tmp_path / "empty.log").touch()
    assert explain(tmp_path / "empty.log") == []


def test_a_layout_that_lines_have_in_common_is_printed_with_one_line_taken_apart(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        *(f"2026-11-21 10:00:{n:02} 203.0.113.{n + 1} GET /a?b={n} 200 12ms" for n in range(20)),
        COMBINED,
    )
    _, _, title, table, line = explain(path)
    assert title == "20 lines of no format have a layout in common, which `tidemark import --infer` saves:"
    assert table.splitlines() == [
        "[formats.inferred]",
        'layout = "$date $clock $client_ip $method $target $status $duration"',
        "detected = true",
    ]
    assert line.splitlines() == [
        "  client_ip    203.0.113.1",
        "  event_time   2026-11-21T10:00:00Z",
        "  method       GET",
        "  path         /a",
        "  query        b=0",
        "  status       200",
        "  bytes        0",
        "  duration_us  12000",
        "  2026-11-21 10:00:00 203.0.113.1 GET /a?b=0 200 12ms",
    ]


def test_an_ambiguous_layout_is_printed_in_both_readings(tmp_path: Path) -> None:
    path = log(tmp_path, *(f"03/05/2026 10:00:{n:02} 203.0.113.{n + 1} GET /a 200" for n in range(20)))
    _, question, first, one, second, other = explain(path)
    assert question.endswith("Are the first numbers of 03/05/2026 day and month, or month and day?")
    assert "$date_dmy" in first and "  event_time   2026-05-03T10:00:00Z" in one
    assert "$date_mdy" in second and "  event_time   2026-03-05T10:00:00Z" in other
