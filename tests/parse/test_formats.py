"""Parsing of log lines: every format, every kind of bad input, compared with an independent parser."""

from __future__ import annotations

import gzip
import ipaddress
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from bronze import access_log
from silver import requests
from tidemark.parse.columns import Knowledge
from tidemark.parse.reading import Reading, SiteReading
from tidemark.parse.tags import UTM

SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "apache_logs.log.gz"
ARRIVAL = datetime(2026, 11, 21, 12, tzinfo=UTC)
KNOWLEDGE = Knowledge(b"k" * 32, reading=Reading({"direct": SiteReading(trusted_proxies="none")}))
FIELDS = (
    "host", "client_ip", "remote_user", "event_time", "method", "path", "query", "protocol", "status",
    "bytes", "referrer", "user_agent",
)  # fmt: skip

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
TIME = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)
# What the plain line below says; each case names what differs from it.
PLAIN = {
    "host": None,
    "client_ip": "203.0.113.7",
    "remote_user": None,
    "event_time": TIME,
    "method": "GET",
    "path": "/docs/",
    "query": "page=2",
    "protocol": "HTTP/1.1",
    "status": 200,
    "bytes": 512,
    "referrer": "https://example.org/a",
    "user_agent": FIREFOX,
}
NOT_HTTP = {"method": None, "path": None, "query": None, "protocol": None}


def combined(
    head: str = "203.0.113.7 - -",
    time: str = "21/Nov/2026:10:00:00 +0000",
    request: str = "GET /docs/?page=2 HTTP/1.1",
    result: str = "200 512",
    referrer: str = "https://example.org/a",
    agent: str = FIREFOX,
) -> str:
    return f'{head} [{time}] "{request}" {result} "{referrer}" "{agent}"'


def common(**parts: str) -> str:
    return combined(**parts).rsplit(' "', 2)[0]


ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "combined": (combined(), {}),
    "common": (common(), {"referrer": None, "user_agent": None}),
    "virtual host": (combined("www.example.com 203.0.113.7 - -"), {"host": "www.example.com"}),
    "virtual host and port": (combined("www.example.com:443 203.0.113.7 - -"), {"host": "www.example.com"}),
    "IPv6 virtual host": (combined("[2001:db8::1]:80 203.0.113.7 - -"), {"host": "[2001:db8::1]"}),
    "virtual host, common": (
        common(head="www.example.com:80 203.0.113.7 - -"),
        {"host": "www.example.com", "referrer": None, "user_agent": None},
    ),
    "IPv6": (combined("2001:db8::7 - -"), {"client_ip": "2001:db8::7"}),
    "IPv6 loopback after a host": (combined("h ::1 - -"), {"client_ip": "::1", "host": "h"}),
    "IPv4 in IPv6": (combined("::ffff:203.0.113.7 - -"), {"client_ip": "203.0.113.7"}),
    "user": (combined("203.0.113.7 - alice"), {"remote_user": "alice"}),
    "user with spaces": (combined("203.0.113.7 - Alice B. Jones"), {"remote_user": "Alice B. Jones"}),
    "user with brackets": (combined("203.0.113.7 - a [b] c"), {"remote_user": "a [b] c"}),
    "user with quotes": (combined(r"203.0.113.7 - a\"b\\"), {"remote_user": 'a"b\\'}),
    "ident": (combined("203.0.113.7 ident alice"), {"remote_user": "alice"}),
    "address in place of the ident": (combined("203.0.113.7 198.51.100.1 alice"), {"remote_user": "alice"}),
    "host in place of the ident": (
        combined("203.0.113.7 Www.Example.org:443 alice"), {"host": "www.example.org", "remote_user": "alice"}
    ),
    "host behind an address": (combined("2001:db8::1 www.example.org - -"),
                               {"client_ip": "2001:db8::1", "host": "www.example.org"}),
    "host behind an address, and a user": (combined("203.0.113.7 www.example.org - Mary Ann"),
                                           {"host": "www.example.org", "remote_user": "Mary Ann"}),
    "no host in front": (combined("- 203.0.113.7 - -"), {}),
    "host in quotes in front of the request": (
        combined().replace('"GET', '"www.example.org" "GET'), {"host": "www.example.org"}
    ),
    "number and dash in front of the referrer": (combined(result="200 512 7 -"), {}),
    "dash without quotes as referrer": (
        combined().replace('"https://example.org/a"', "-"), {"referrer": None}
    ),
    "a dash in front of referrer and agent": (combined(result="200 512 -"), {}),
    "the method of a route in the request": (combined(request="GET GET /docs/?page=2 HTTP/1.1"), {}),
    "another method in the request": (
        combined(request="GET POST /docs/?page=2 HTTP/1.1"), {"path": "POST /docs/"}
    ),
    "dash without quotes as agent": (
        combined().replace(f'"{FIREFOX}"', "-"), {"user_agent": None}
    ),
    "no host in quotes in front of the request": (combined().replace('"GET', '"-" "GET'), {}),
    "identifier of the request in front of no user": (combined("203.0.113.7 - 4f3c29 -"), {}),
    "the same after a host": (combined("www.example.com 203.0.113.7 - 4f3c29 -"), {"host": "www.example.com"}),
    "empty user": (combined("203.0.113.7 - "), {}),
    "quotes in the agent": (combined(agent=r"a \"b\" c"), {"user_agent": 'a "b" c'}),
    "agent ends with a backslash": (combined(agent=r"a\\"), {"user_agent": "a\\"}),
    "backslash, then quote": (combined(agent=r"a\\\"b"), {"user_agent": 'a\\"b'}),
    "quote in the path": (
        combined(request=r"GET /a\"b?c=\"d\" HTTP/1.1"), {"path": '/a"b', "query": 'c="d"'}
    ),
    "hexadecimal escapes stay": (combined(agent=r"\xe2\x80\x8b\x22"), {"user_agent": r"\xe2\x80\x8b\x22"}),
    "UTF-8 stays": (combined(agent="naïve ☃ 𝄞"), {"user_agent": "naïve ☃ 𝄞"}),
    "line separators of Unicode": (
        combined(request="GET /a\u2028b\u0085c HTTP/1.1"), {"path": "/a\u2028b\u0085c", "query": None}
    ),
    "tabs": (combined(agent="a\tb"), {"user_agent": "a\tb"}),
    "duration in front of the referrer": (combined(result="200 512 0.202"), {}),
    "whole number in front of the referrer": (combined(result="304 - 7"), {"status": 304, "bytes": 0}),
    "no referrer": (combined(referrer="-"), {"referrer": None}),
    "empty referrer": (combined(referrer=""), {"referrer": None}),
    "no agent": (combined(agent="-"), {"user_agent": None}),
    "empty agent": (combined(agent=""), {"user_agent": None}),
    "no size": (combined(result="304 -"), {"status": 304, "bytes": 0}),
    "long size": (combined(result="200 5000000000"), {"bytes": 5_000_000_000}),
    "space at the end": (common() + " ", {"referrer": None, "user_agent": None}),
    "blanks around": (" \t" + combined() + " \t ", {}),
    "blanks around a common line": ("\t" + common() + "\t", {"referrer": None, "user_agent": None}),
    "carriage return": (combined() + "\r", {}),
    "carriage returns and a line feed": (combined() + "\r\r\n", {}),
    "byte-order mark": ("\ufeff" + combined(), {}),
    "byte-order mark, virtual host and carriage return": (
        "\ufeff" + combined("www.example.com 203.0.113.7 - -") + " \r", {"host": "www.example.com"}
    ),
    "byte-order mark inside": (combined(agent="a\ufeff"), {"user_agent": "a\ufeff"}),
    "tabs between the fields": (
        combined("www.example.com\t203.0.113.7\t-\talice").replace("] ", "]\t").replace('" ', '"\t'),
        {"host": "www.example.com", "remote_user": "alice"},
    ),
    "tabs between the fields and in one": (
        combined(agent="a\\\"\tb\t").replace("200 512 ", "200\t512\t").replace(" [", "\t["), {"user_agent": 'a"\tb\t'}
    ),
    "east of Greenwich": (
        combined(time="21/Nov/2026:10:00:00 +0530"), {"event_time": TIME - timedelta(hours=5.5)}
    ),
    "west of Greenwich": (
        combined(time="21/Nov/2026:01:00:00 -0700"), {"event_time": TIME - timedelta(hours=2)}
    ),
    "an ISO time": (combined(time="2026-11-21T11:00:00+01:00"), {}),
    "an ISO time with the hours of its zone": (combined(time="2026-11-21 11:00:00+01"), {}),
    "a short ISO time": (combined(time="20261121T100000Z"), {}),
    "a German time": (combined(time="21.11.2026 10:00:00"), {}),
    "a padded day": (combined(time=" 1/Nov/2026:10:00:00 +0000"), {"event_time": TIME - timedelta(days=20)}),
    "other separators in the time": (combined(time="21-Nov-2026 10:00:00 +0000"), {}),
    "leap day": (
        combined(time="29/Feb/2024:23:59:59 +0000"),
        {"event_time": datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)},
    ),
    "a day ahead": (combined(time="22/Nov/2026:12:00:00 +0000"), {"event_time": ARRIVAL + timedelta(days=1)}),
    "long ago": (
        combined(time="01/Jan/1995:00:00:00 +0000"), {"event_time": datetime(1995, 1, 1, tzinfo=UTC)}
    ),
    "HTTP/2": (combined(request="GET /docs/?page=2 HTTP/2.0"), {"protocol": "HTTP/2.0"}),
    "HTTP/3 of nginx": (combined(request="GET /docs/?page=2 HTTP/3"), {"protocol": "HTTP/3"}),
    "another method": (combined(request="M-SEARCH * HTTP/1.1"), {"method": "M-SEARCH", "path": "*", "query": None}),
    "asterisk form": (combined(request="OPTIONS * HTTP/1.0"),
                      {"method": "OPTIONS", "path": "*", "query": None, "protocol": "HTTP/1.0"}),
    "absolute form": (combined(request="GET http://example.com/a?b HTTP/1.1"),
                      {"path": "http://example.com/a", "query": "b"}),
    "path with spaces": (combined(request="GET /a b  c HTTP/1.1"), {"path": "/a b  c", "query": None}),
    "several question marks": (combined(request="GET /a?b?c=? HTTP/1.1"), {"path": "/a", "query": "b?c=?"}),
    "empty query": (combined(request="GET /a? HTTP/1.1"), {"path": "/a", "query": None}),
    "HTTP twice": (combined(request="GET /a HTTP/1.0 HTTP/1.1"), {"path": "/a HTTP/1.0", "query": None}),
    "TLS handshake": (combined(request=r"\x16\x03\x01", result="400 226"), NOT_HTTP | {"status": 400, "bytes": 226}),
    "forwarded for, as nginx's main has it": (combined() + ' "198.51.100.7, 10.0.0.1"', {}),
    "forwarded for, with quotes": (combined() + r' "\"a\""', {}),
    "request time of Apache": (combined() + " 1042", {}),
    "request time of Apache after common": (common() + " 1042", {"referrer": None, "user_agent": None}),
    "request and upstream time of nginx": (combined() + " 0.012 0.004, 0.006", {}),
    "no upstream": (combined() + " 0.000 - .", {}),
    "host and forwarded for": (
        combined() + ' www.example.com:443 "198.51.100.7, 10.0.0.1" "-"', {"host": "www.example.com"}
    ),
    "trailing fields with names": (combined() + ' rt=0.012 uct="0.001" urt="-" cs:HIT "x"', {}),
    "trailing fields after a host": (
        combined("www.example.com 203.0.113.7 - -") + ' 0.012 "-"', {"host": "www.example.com"}
    ),
    "trailing fields behind tabs": (combined() + '\t0.012\t"a\tb"', {}),
    "two quoted fields more": (combined() + ' "a" "b"', {}),
    "no request": (combined(request="-", result="408 0"), NOT_HTTP | {"status": 408, "bytes": 0}),
    "empty request": (combined(request=""), NOT_HTTP),
    "HTTP/0.9": (combined(request="GET /"), {"path": "/", "query": None, "protocol": None}),
    "HTTP/0.9 with spaces": (combined(request="GET /a b?c d"), {"path": "/a b", "query": "c d", "protocol": None}),
    "the number of a protocol": (combined(request="GET /a 2"), {"path": "/a", "query": None, "protocol": "HTTP/2"}),
    "the number of the first protocol": (combined(request="GET /a?b 1.1"), {"path": "/a", "query": "b"}),
    "a protocol that is cut": (combined(request="GET /a HTTP/1."), {"path": "/a", "query": None, "protocol": None}),
    "another protocol": (combined(request="OPTIONS / RTSP/1.0"), NOT_HTTP),
    "a method alone": (combined(request="GET"), NOT_HTTP),
    "IPv6 in brackets": (combined("[2001:DB8:0::1] - -"), {"client_ip": "2001:db8::1"}),
    "IPv6 in brackets with a port": (combined("[2001:db8::1]:4711 - -"), {"client_ip": "2001:db8::1"}),
    "IPv4 with a port": (combined("203.0.113.7:4711 - -"), {}),
    "a port after a host with one": (
        combined("www.example.com:443 203.0.113.7:4711 - -"), {"host": "www.example.com"}
    ),
    "address with zone": (combined("fe80::1%eth0 - -"), {"client_ip": "fe80::1"}),
    "host name as address": (combined("Client.example.com - -"), {"client_ip": "client.example.com"}),
    "a name without dots as address": (combined("localhost - -"), {"client_ip": "localhost"}),
    "dash as address": (combined("- - -"), {"client_ip": None}),
    "unknown as address": (combined("unknown - -"), {"client_ip": None}),
    "address out of range": (combined("203.0.113.256 - -"), {"client_ip": None}),
    "half an address": (combined("203.0.113 - -"), {"client_ip": None}),
    "invalid address after a host": (combined("h:80 1.2.3.999 - -"), {"client_ip": None, "host": "h"}),
    "negative size": (combined(result="200 -5"), {"bytes": 0}),
    "signed size": (combined(result="200 +5"), {"bytes": 0}),
    "size that overflows": (combined(result="200 99999999999999999999"), {"bytes": 0}),
    "size beyond reason": (combined(result="200 9223372036854775807"), {"bytes": 0}),
    "the largest size": (combined(result=f"200 {1 << 40}"), {"bytes": 1 << 40}),
    "size in words": (combined(result="200 12k"), {"bytes": 0}),
    "a dot as size": (combined(result="200 ."), {"bytes": 0}),
    "no status": (combined(result="- 5"), {"status": None, "bytes": 5}),
    "status 000": (combined(result="000 5"), {"status": None, "bytes": 5}),
    "status 0 of a request": (combined(result="0 5"), {"status": None, "bytes": 5}),
    "no size after the status": (combined(result="200"), {"bytes": 0}),
    "nothing after the status": (common(result="200"), {"bytes": 0, "referrer": None, "user_agent": None}),
    "two blanks in the request": (combined(request="GET  /docs/?page=2 HTTP/1.1"), {}),
    "status 600": (combined(result="600 5"), {"status": 600, "bytes": 5}),
    "leap second": (
        combined(time="31/Dec/2016:23:59:60 +0000"), {"event_time": datetime(2017, 1, 1, tzinfo=UTC)}
    ),
    "form feed at the end": (combined() + "\f", {}),
    "NUL bytes in front": ("\0" * 100 + combined(), {}),
    "control characters": (combined(agent="a\x07b\x7f"), {"user_agent": r"a\x07b\x7F"}),
    "colours": ("\x1b[32m" + combined(agent="a\x1b[0;1mb") + "\x1b[0m", {"user_agent": "ab"}),
    "in quotes": (f'"{combined()}"', {}),
    "in quotes as in CSV": ('"' + combined().replace('"', '""') + '"', {}),
    "quotes in the agent that are not escaped": (combined(agent='a "b c'), {"user_agent": 'a "b c'}),
    "a word in quotes in the agent": (combined(agent='a "b" c'), {"user_agent": 'a "b" c'}),
    "an inch mark, and trailing fields": (
        combined(agent='TAB 10" PRO') + ' 0.012 "-"', {"user_agent": 'TAB 10" PRO'}
    ),
    "behind the number of a line": ("12:" + combined(), {}),
    "quotes in the request that are not escaped": (
        combined(request='GET /a"b?c="d" HTTP/1.1'), {"path": '/a"b', "query": 'c="d"'}
    ),
    "a trailing field in brackets": (combined() + " [a]", {}),
    "two spaces before a trailing field": (combined() + " 0.012  0.004", {}),
    "a trailing quote": (combined() + ' 0.012 "', {}),
    "two numbers before the referrer": (combined(result="200 512 7 8"), {}),
    "cut in the referrer": (combined().split("example")[0], {"referrer": "https://", "user_agent": None}),
    "cut before the agent": (combined().rsplit('"', 2)[0], {"user_agent": None}),
    "cut in the agent": (combined(agent="curl")[:-3], {"user_agent": "cu"}),
    "cut before the last quote": (combined()[:-1], {}),
    "lower-case method": (combined(request="get / HTTP/1.1"), NOT_HTTP),
    "SQL": (combined(request="' OR 1=1; DROP TABLE x --"), NOT_HTTP),
}  # fmt: skip

REJECTED: dict[str, tuple[bytes, list[str]]] = {
    "empty": (b"", ["empty"]),
    "blank": (b"   ", ["malformed"]),
    "garbage": (b"kjhsdf 87 \\\" \" [ ] 12", ["malformed"]),
    "quotes": (b'""""""', ["malformed"]),
    "escapes": (b'\\"\\\\\\', ["malformed"]),
    "JSON": (b'{"ip": "203.0.113.7", "time": 1}', ["malformed"]),
    "binary": (bytes(range(128)), ["malformed"]),
    "zeros": (b"\0" * 100, ["malformed"]),
    "carriage return inside": (combined(agent="a\rb").encode(), ["malformed"]),
    "nothing but blanks and a line end": ("\ufeff \t\r\n".encode(), ["malformed"]),
    "two lines": (combined().encode() + b"\n" + combined().encode(), ["malformed"]),
    "5 MB": (combined(agent="a" * 5_000_000).encode(), ["too_long"]),
    "5 MB of nothing": (b"\xff" * 5_000_000, ["too_long"]),
    "cut in the address": (combined().encode()[:7], ["malformed"]),
    "cut in the time": (combined().encode()[:30], ["malformed"]),
    "cut in the request": (combined().encode()[:60], ["malformed"]),
    "cut in the status": (common()[:-5].encode(), ["malformed"]),
    "a quoted field after common": (common().encode() + b' 1042 "a"', ["malformed"]),
    "another line behind": (combined().encode() + b" " + combined().encode(), ["malformed"]),
    "another common line behind": (common().encode() + b" " + common().encode(), ["malformed"]),
    "no space after the request": (common().replace('" 200', '"200').encode(), ["malformed"]),
    "30 February": (combined(time="30/Feb/2026:10:00:00 +0000").encode(), ["invalid_time"]),
    "29 February of a common year": (combined(time="29/Feb/2026:10:00:00 +0000").encode(), ["invalid_time"]),
    "hour 24": (combined(time="20/Nov/2026:24:00:00 +0000").encode(), ["invalid_time"]),
    "month in German": (combined(time="21/Okt/2026:10:00:00 +0000").encode(), ["invalid_time"]),
    "ISO time": (combined(time="2026-11-21T10:00:00 +00000").encode(), ["invalid_time"]),
    "status 0 of no request": (combined(request="-", result="0 5").encode(), ["invalid_status"]),
    "no time": (combined(time="-").encode(), ["invalid_time"]),
    "zone out of range": (combined(time="21/Nov/2026:10:00:00 +9900").encode(), ["invalid_time"]),
    "year 0": (combined(time="21/Nov/0000:10:00:00 +0000").encode(), ["invalid_time"]),
    "before Unix": (combined(time="31/Dec/1969:10:00:00 +0000").encode(), ["invalid_time"]),
    "a day and a second ahead": (combined(time="22/Nov/2026:12:00:01 +0000").encode(), ["future_time"]),
    "year 9998": (combined(time="31/Dec/9998:23:59:59 -0100").encode(), ["future_time"]),
    "a time beyond Python's": (combined(time="31/Dec/9999:23:59:59 -0100").encode(), ["invalid_time"]),
    "status 99": (combined(result="99 5").encode(), ["invalid_status"]),
    "status 0200": (combined(result="0200 5").encode(), ["invalid_status"]),
    "status with a sign": (combined(result="+20 5").encode(), ["invalid_status"]),
    "everything at once": (
        combined("x - -", time="x", result="x x").encode(),
        ["invalid_time", "invalid_status"],
    ),
}  # fmt: skip

# Kafka records: the value and the headers.
RECORDS: dict[str, tuple[bytes | None, dict[str, bytes]]] = {
    "a whole row": (
        combined("203.0.113.7 - alice", referrer="https://www.google.com/search?q=x").encode(),
        {"site": b"shop", "format": b"combined", "other": b"x"},
    ),
    "a site of any bytes": (combined().encode(), {"site": b"\xff\xfe"}),
    "an id": (combined().encode(), {"id": b"1"}),
    "a part of a line": (combined().encode(), {"chunk": b"1/2"}),
    "an empty name of a format": (combined().encode(), {"format": b""}),
    "no value": (None, {}),
}
SITES = {
    "a" * 200: True, "é" * 200: True, "": True, "a" * 201: False, "a\tb": False, "a\x85": False,
    "\x00": False, "a\x7f": False, "\u200bа б.example": True,
}  # fmt: skip
VALIDATION = requests.validation(KNOWLEDGE)


def validate(lines: Sequence[bytes], **columns: str) -> list[dict[str, Any]]:
    """The validated rows of lines without headers, in their order. `columns` are those of bronze.access_log. The site
    `direct` has no proxies."""
    names = [name for name in access_log.TABLE.column_names if name != "ingested_at"]
    usual = {"topic": "access-log", "partition": 0, "site": "default", "kafka_timestamp": ARRIVAL, **columns}
    rows = [usual | {"offset": offset, "value": line} for offset, line in enumerate(lines)]
    schema = pa.schema([access_log.TABLE.arrow_schema.field(name) for name in names])
    return VALIDATION.add(pa.Table.from_pylist(rows, schema)).drop_columns("ingested_at").to_pylist()


def through_spark(
    spark: SparkSession, records: Sequence[tuple[bytes | None, dict[str, bytes]]]
) -> list[dict[str, Any]]:
    """The validated rows of Kafka records, in their order."""
    frame = spark.createDataFrame(
        [
            ("access-log", 0, offset, value, ARRIVAL, list(headers.items()) or None)
            for offset, (value, headers) in enumerate(records)
        ],
        "topic string, partition int, offset long, value binary, timestamp timestamp, "
        "headers array<struct<key string, value binary>>",
    )
    rows = VALIDATION.to_frame(access_log.access_log(frame)).drop("ingested_at").toArrow().to_pylist()
    return sorted(rows, key=lambda row: row["offset"])


@pytest.fixture(scope="module")
def accepted() -> dict[str, dict[str, Any]]:
    return dict(zip(ACCEPTED, validate([line.encode() for line, _ in ACCEPTED.values()]), strict=True))


@pytest.fixture(scope="module")
def rejected() -> dict[str, dict[str, Any]]:
    return dict(zip(REJECTED, validate([line for line, _ in REJECTED.values()]), strict=True))


@pytest.fixture(scope="module")
def records(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """The rows of RECORDS, and of a line of each site, under its name."""
    sent = RECORDS | {site: (combined().encode(), {"site": site.encode()}) for site in SITES}
    return dict(zip(sent, through_spark(spark, list(sent.values())), strict=True))


def test_spark_makes_the_same_rows(
    spark: SparkSession, accepted: dict[str, dict[str, Any]], rejected: dict[str, dict[str, Any]]
) -> None:
    for rows in (accepted, rejected):
        assert through_spark(spark, [(row["value"], {}) for row in rows.values()]) == list(rows.values())


@pytest.mark.parametrize("case", ACCEPTED)
def test_an_accepted_line_has_its_fields(case: str, accepted: dict[str, dict[str, Any]]) -> None:
    row = accepted[case]
    assert row["reasons"] == [] and row["accepted"]
    assert {name: row[name] for name in FIELDS} == PLAIN | ACCEPTED[case][1]


@pytest.mark.parametrize("case", REJECTED)
def test_a_rejected_line_has_its_reasons_and_its_bytes(
    case: str, rejected: dict[str, dict[str, Any]]
) -> None:
    row = rejected[case]
    assert (row["reasons"], row["accepted"]) == (REJECTED[case][1], False)
    assert row["value"] == REJECTED[case][0]


@pytest.mark.parametrize(
    "agent, message",
    [
        (b"a\xff", r"a\xFF"),
        ("café".encode("latin-1"), r"caf\xE9"),
        (b"\xed\xa0\x80", r"\xED\xA0\x80"),  # half of a surrogate pair
        (b"\xc0\xaf", r"\xC0\xAF"),  # an overlong form
        ("é\xa0".encode() + b"\xe4\xbd", "é\xa0" + r"\xE4\xBD"),
    ],
)
def test_bytes_that_are_no_utf_8_are_written_as_servers_do(agent: bytes, message: str) -> None:
    line = combined(agent="AGENT").encode().replace(b"AGENT", agent)
    [row, other] = validate([line, combined().encode()])
    assert (row["reasons"], row["user_agent"], row["value"]) == ([], message, line)
    assert other["user_agent"] == FIREFOX


def test_a_whole_row(records: dict[str, dict[str, Any]]) -> None:
    row = records["a whole row"]
    assert row == PLAIN | {
        "topic": "access-log", "partition": 0, "offset": 0, "site": "shop", "format": "combined", "fields": None,
        "id": None,
        "chunk": None, "value": RECORDS["a whole row"][0], "kafka_timestamp": ARRIVAL, "fits": True, "whole": True,
        "status_ok": True, "well_formed": True, "format_known": True, "fields_known": True,
        "read_as": "combined", "nearest": None, "lacks": None, "duration_us": None, "edge_country": None,
        "remote_user": "alice", "referrer": "https://www.google.com/search?q=x",
        "referrer_host": "google.com", "channel": "organic search", "source": "google", "latency_bucket": None,
        **dict.fromkeys((*UTM, "click_id", "search_term", "privacy")), "country": "ZZ",
        **dict.fromkeys(("network", "asn", "as_org", "city", "region", "bot_verified", "disallowed")),
        "browser": "Firefox", "os": "Linux",
        "device": "desktop", "bot": False, "bot_name": None, "bot_kind": None, "ai_purpose": None,
        "asset": False, "pageview": True, "reasons": [],
        "accepted": True, "visitor_id": row["visitor_id"], "rules_version": KNOWLEDGE.version,
    }  # fmt: skip
    assert re.fullmatch("[0-9a-f]{32}", row["visitor_id"])


@pytest.mark.parametrize(
    "line, pageview, asset",
    [
        (combined(), True, False),
        (combined(request="POST /docs/ HTTP/1.1"), False, False),
        (combined(request="HEAD /docs/ HTTP/1.1"), False, False),
        (combined(result="304 -"), True, False),
        (combined(result="399 0"), True, False),
        (combined(result="400 0"), False, False),
        (combined(request="GET /a.css HTTP/1.1"), False, True),
        (combined(request="GET /a.JPEG?v=1 HTTP/1.1"), False, True),
        (combined(request="GET /a.css/ HTTP/1.1"), True, False),
        (combined(request="GET /a?b.css HTTP/1.1"), True, False),
        (combined(request="GET /css HTTP/1.1"), True, False),
        (combined(request="GET /a.html HTTP/1.1"), True, False),
        (combined(agent="Googlebot/2.1 (+http://www.google.com/bot.html)"), False, False),
        (combined(request="-"), False, False),
    ],
)
def test_what_a_pageview_is(line: str, pageview: bool, asset: bool) -> None:
    [row] = validate([line.encode()])
    assert (row["pageview"], row["asset"], row["reasons"]) == (pageview, asset, [])


@pytest.mark.parametrize(
    "line, named, reasons",
    [
        (common(), "common", []),
        (combined(), "common", []),
        (combined(), "combined", []),
        (common(), "combined", []),
        (combined("h:80 203.0.113.7 - -"), "vhost_combined", []),
        (combined("h:80 203.0.113.7 - -"), "combined", []),
        (combined(), "vhost_combined", []),
        (combined(), "", ["unknown_format"]),
        (combined(), "w3c", ["unknown_format"]),
        (common() + " 1042", "common", []),
        (combined() + " 1042", "combined", []),
        (combined() + " 1042", "w3c", ["unknown_format", "malformed"]),
        (combined(), "caddy_json", ["malformed"]),
        (combined(), "ovh", []),
    ],
)
def test_a_named_format(line: str, named: str, reasons: list[str]) -> None:
    [row] = validate([line.encode()], format=named)
    assert row["reasons"] == reasons


def test_a_named_format_tells_an_address_of_the_server_from_the_clients() -> None:
    line = combined("198.51.100.1 203.0.113.7 - -").encode()
    [detected], [named] = validate([line]), validate([line], format="combined")
    assert (detected["host"], detected["client_ip"]) == ("198.51.100.1", "203.0.113.7")
    assert (named["host"], named["client_ip"]) == (None, "198.51.100.1")


def test_headers_of_any_bytes_do_not_stop_the_stream(records: dict[str, dict[str, Any]]) -> None:
    junk, none, part = (records[name] for name in ("a site of any bytes", "an id", "a part of a line"))
    assert (junk["site"], junk["reasons"]) == ("\ufffd\ufffd", [])
    assert (none["site"], none["reasons"]) == ("default", [])
    assert (part["value"], part["reasons"]) == (combined().encode(), ["too_long"])
    assert records["an empty name of a format"]["reasons"] == ["unknown_format"]


@pytest.mark.parametrize("site", SITES)
def test_what_a_site_may_be_called(site: str, records: dict[str, dict[str, Any]]) -> None:
    row = records[site]
    assert (row["site"], row["accepted"]) == (site, SITES[site])
    assert row["reasons"] == ([] if SITES[site] else ["invalid_site"])


def test_a_record_without_a_value_is_an_empty_line(records: dict[str, dict[str, Any]]) -> None:
    assert (records["no value"]["value"], records["no value"]["reasons"]) == (b"", ["empty"])


def test_no_part_of_a_line_is_read_as_more_than_it_has() -> None:
    """A line that ends before its status is malformed. Behind it, what is there is read."""
    line = combined().encode()
    start = len(common(result="200"))
    for end, row in enumerate(validate([line[:end] for end in range(len(line))])):
        assert row["accepted"] == (end >= start), line[:end]
        if row["accepted"]:
            assert {name: row[name] for name in ("event_time", "path", "status")} == {
                "event_time": TIME,
                "path": "/docs/",
                "status": 200,
            }
            assert FIREFOX.startswith(row["user_agent"] or "")
            assert PLAIN["referrer"].startswith(row["referrer"] or "")


def text_of(value: bytes) -> str | None:
    """The line as text; None for one that is too long, or several."""
    line = "".join(
        char if not "\udc80" <= char <= "\udcff" else f"\\x{ord(char) - 0xDC00:02X}"
        for char in value.decode("utf-8", "surrogateescape")
    )
    line = line.strip(" \t\r\n\f\v\0\x1e\ufeff\u00a0\u200b")
    if len(value) > 65_536 or re.search(r"[\r\n]", line):
        return None
    line = (
        re.sub(r"(?:\x1b|\\x1[bB]|\\033|\\e)\[[0-9;:]*m", "", line)
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", line)
        else line
    )
    return re.sub(r"[\x00-\x08\x0a-\x1f\x7f]", lambda match: f"\\x{ord(match[0]):02X}", line).strip(
        " \t\ufeff\u00a0\u200b"
    )


def reference(value: bytes) -> dict[str, Any] | None:
    """The same parser once more, written with regular expressions; None for a line that does not have the exact form of
    the family, or that is to be rejected."""
    line = text_of(value)
    if line is None:
        return None
    # Outside of quotes a tab is a space.
    line = re.sub(r'(\\["\\]|"(?:[^"\\]|\\.)*")|\t', lambda match: match[1] or " ", line)
    quoted = r'"((?:[^"\\]|\\.)*)"'
    words = "(?: [A-Za-z0-9_.:,;=/%+*@~|&?#!$-]+)"
    tail = rf'(?:{words}* (?:[A-Za-z0-9_.-]+[=:])?"(?:[^"\\]|\\.)*")*{words}*'
    agents = rf"(?: [0-9]+(?:[.][0-9]+)?)? *(?: {quoted} {quoted}{tail})?"
    whole = rf'((?:[^"\\]|\\.)*){quoted} +([^ "]+) ([^ "]+)(?:{words}+|{agents})'
    if not (result := re.fullmatch(whole, line, re.DOTALL)):
        return None
    before, request, status, size, referrer, agent = result.groups()
    if not (start := re.fullmatch(r"(.*) \[(.{26})\] ", before, re.DOTALL)):
        return None
    head, time = start.groups()
    words = head.split(" ")
    # A host stands in front where the second of four words looks like an address, a valid one or not, or where the
    # last two are the dashes of ident and user.
    numeric = r"[0-9]+([.][0-9]+){3}|[0-9A-Fa-f.]*(:[0-9A-Fa-f.]*){2,}"
    domain = r"((?:[A-Za-z0-9_-]+\.)+[A-Za-z][A-Za-z0-9_-]*)(?::[0-9]+)?"
    behind = len(words) > 2 and re.fullmatch(numeric, words[0]) and re.fullmatch(domain, words[1])
    ported = re.fullmatch(r"(?:[A-Za-z0-9_-]+\.)+[A-Za-z][A-Za-z0-9_-]*:[0-9]+", words[0])
    named = (
        len(words) > 3
        and not behind
        and words[1] not in ("", "-")
        and "," not in words[0]
        and (re.fullmatch(r"[0-9A-Fa-f.]*[.:][0-9A-Fa-f:.]+", words[1]) or words[2:] == ["-", "-"] or ported)
    )
    host = re.sub(r":[0-9]*\Z", "", words.pop(0)) if named else None
    if len(words) < 3 or not re.fullmatch(r"[0-9A-Fa-f:.]*[.:][0-9A-Fa-f:.]*", words[0]):
        return None
    # What cannot be a host or an address may stand in front of the line.
    if re.match(r"[0-9]+:[0-9]+\.", words[0]):
        return None
    if words[0].count(".") != 3 and not re.search("::|(?:[^:]*:){7}", words[0]):
        return None
    if host is not None and not re.fullmatch(r"\[[0-9a-f:.]+\]", host.lower()):
        dated = re.fullmatch(r"\d+|\d{4}-\d\d-\d\d.*", host, re.ASCII)
        level = host.lower() in ("trace", "debug", "info", "notice", "warn", "warning", "error")
        file = re.search("[g-z].*:|:.*[g-z]", host.lower())
        if dated or level or file or re.search(r"[] =<>/[(){}|@,;]", _unescaped(host)):
            return None
    user = " ".join(words[2:]).strip(" ")
    if behind:
        host, user = behind[1], user.removeprefix("- ")
    if user.endswith(" -"):  # another field, and no user
        if host is None and words[1].endswith(","):
            return None
        user = ""
    if host in (None, "-", ""):
        host = None
        after = line[result.end(4 if agent is None else 6) + 1 :].split(" ")
        domain = r"((?:[A-Za-z0-9_-]+\.)+[A-Za-z][A-Za-z0-9-]+)(?::[0-9]+)?"
        name = rf'(?:(?:host|http_host|server_name|vhost)[=:])?"?{domain}"?'
        host = next((match[1] for word in after if (match := re.fullmatch(name, word))), None)
    event_time = _reference_time(time)
    if event_time is None or event_time > ARRIVAL + timedelta(days=1):
        return None
    if not re.fullmatch("[1-9][0-9][0-9]|000|-|-1", status):
        return None
    number = re.fullmatch("([0-9]+)(?:[.]0*)?", size)
    request = re.sub(r"\A([A-Z][A-Z_-]{1,31}) +", r"\1 ", request)
    http = re.fullmatch(r"([A-Z][A-Z_-]{1,31}) (\S.*) (HTTP/\d(?:\.\d)?)", request, re.DOTALL | re.ASCII)
    method, target, protocol = http.groups() if http else _unversioned(request)
    if http:  # the key of a route in place of the target
        target = re.sub(rf"\A(?:{method}|ANY) (?=/)", "", target)
    path, _, query = _unescaped(target).partition("?") if target else (None, "", None)
    return {
        "host": _unescaped(host).lower() if host is not None else None,
        "client_ip": _address(words[0]),
        "remote_user": _present(user),
        "event_time": event_time,
        "method": method,
        "path": path,
        "query": query or None,
        "protocol": protocol,
        "status": int(status) if status not in ("000", "-", "-1") else None,
        "bytes": int(number[1]) if number and int(number[1]) <= 1 << 40 else 0,
        "referrer": _present(referrer),
        "user_agent": _present(agent),
    }


def _unversioned(request: str) -> tuple[str | None, str | None, str | None]:
    """Method, target and protocol of a request without a whole version."""
    match = re.fullmatch(r"([A-Z][A-Z_-]{1,31}) (.*)", request, re.DOTALL)
    if not match or re.search(r" [A-Za-z]+/[0-9]+(\.[0-9]+)?( [0-9]{3} ([0-9]+|-))?\Z", request):
        return None, None, None
    target, number = match[2], re.search(r" (1\.0|1\.1|2|3)\Z", match[2])
    if number:
        target = target[: number.start()]
    else:
        target = re.sub(r" (|-|H|HT|HTT|HTTP|HTTP/|HTTP/[0-9]|HTTP/[0-9][.])\Z", "", target)
    if target == "*" or target.startswith("/") or re.match(r"[a-z][a-z0-9+.-]*://", target):
        return match[1], target, f"HTTP/{number[1]}" if number else None
    return None, None, None


def _address(text: str) -> str | None:
    text = re.sub(r"\A([0-9]+[.][0-9]+[.][0-9]+[.][0-9]+):[0-9]+\Z", r"\1", text)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return (
            text.lower()
            if re.search("[A-Za-z]", text) and re.fullmatch(r"\w[\w-]*(\.[\w-]+)*\.?", text)
            else None
        )
    return str(getattr(address, "ipv4_mapped", None) or address)


def _reference_time(text: str) -> datetime | None:
    if not re.fullmatch(r"\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", text, re.ASCII):
        return None
    hours, minutes = int(text[-4:-2]), int(text[-2:])
    if not "1970" <= text[7:11] <= "9998" or minutes > 59 or hours * 60 + minutes > 18 * 60:
        return None
    leap = text[15:20] in ("14:60", "29:60", "44:60", "59:60")
    try:
        offset = timedelta(hours=hours, minutes=minutes) * (1 if text[-5] == "+" else -1)
        clock = f"{text[:18]}59" if leap else text[:20]
        local = datetime.strptime(clock, "%d/%b/%Y:%H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return local - offset + timedelta(seconds=leap)


def _unescaped(text: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", text)


def _present(field: str | None) -> str | None:
    return _unescaped(field) if field not in (None, "", "-") else None


SEEDS = [line.encode() for line, _ in ACCEPTED.values()] + [
    line for line, _ in REJECTED.values() if 0 < len(line) < 1000
]
TOKENS = [
    *(b'"', b'\\"', b"\\\\", b"\\", b" ", b"  ", b"-", b"[", b"]", b" [", b"] ", b'" "', b"\t", b"\r", b"\0", b"?",
      "\ufeff".encode()),
    *(b"\xff", b"\xc3", "é".encode(), "\u2028".encode(), "𝄞".encode(), b"::1", b"1.2.3.4", b"999", b"+5", b"1e3"),
    *(b"HTTP/1.1", b" HTTP/1.1", b"GET ", b"0000", b"9999", b"Feb", b"31/", b"+1400", b"-1830", b"24:", b":60"),
]  # fmt: skip


def mutated(chance: random.Random) -> bytes:
    """A line near a real one: bytes changed, pieces cut, repeated, exchanged or put in."""
    line = bytearray(chance.choice(SEEDS))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(line) + 1)
        match chance.randrange(6):
            case 0:
                line[at:at] = chance.choice(TOKENS)
            case 1:
                del line[at : at + chance.choice((1, 1, 3, 20))]
            case 2:
                line[at : at + 1] = bytes([chance.randrange(256)])
            case 3:
                line[at:at] = line[at : at + chance.randrange(40)]
            case 4:
                line[at : at + chance.choice((1, 2, 4))] = chance.choice(TOKENS)
            case _:
                other = chance.choice(SEEDS)
                line[at:] = other[chance.randrange(len(other)) :]
    return bytes(line)


# A smaller seed is no smaller case.
@settings(max_examples=5, deadline=None, phases=(Phase.reuse, Phase.generate))
@given(seed=st.integers(0, 2**32))
def test_any_bytes_are_accepted_or_rejected_as_the_reference_says(seed: int) -> None:
    chance = random.Random(seed)
    lines = [mutated(chance) for _ in range(2500)] + [
        chance.randbytes(chance.randrange(200)) for _ in range(250)
    ]
    rows = validate(lines, site="direct")  # a changed address may be a proxy's
    assert [row["value"] for row in rows] == lines
    for line, row in zip(lines, rows, strict=True):
        expected = reference(line)
        assert row["accepted"] == (row["reasons"] == []), (line, row["reasons"])
        if expected is not None:
            assert row["accepted"], (line, row["reasons"])
            assert {name: row[name] for name in FIELDS} == expected, line
        elif row["accepted"]:  # by a looser reading, which must not take what is not there
            text = text_of(line) or ""
            assert re.search(r'\[.*\d.*\].*"', text), line
            assert row["status"] is None or str(row["status"]) in text, line
            assert row["path"] is None or row["method"] in text, line
    assert 100 < sum(row["accepted"] for row in rows) < 2500, (
        "the mutations are neither too weak nor too wild"
    )


@pytest.mark.skipif(not SAMPLE.exists(), reason="the sample log is not on this machine")
def test_a_real_log() -> None:
    lines = gzip.decompress(SAMPLE.read_bytes()).splitlines()
    rows = validate(lines)
    good = [(reference(line), row) for line, row in zip(lines, rows, strict=True) if row["accepted"]]
    assert (len(good), len(rows) - len(good)) == (10_000, 0)
    # The reference reads whole lines only, and one ends within its agent.
    whole = [(expected, row) for expected, row in good if expected is not None]
    assert len(whole) == 9_999
    assert [{name: row[name] for name in FIELDS} for _, row in whole] == [expected for expected, _ in whole]


def test_a_duration_has_its_bucket() -> None:
    lines = [(combined() + end).encode() for end in ("", " 0.000", " 0.012", " 3.500")]
    table = pa.table(
        {
            "site": ["shop"] * 4, "value": lines, "format": pa.nulls(4, pa.string()),
            "fields": pa.nulls(4, pa.string()), "chunk": pa.nulls(4, pa.string()),
            "kafka_timestamp": pa.array([ARRIVAL] * 4, pa.timestamp("us", "UTC")),
        }
    )  # fmt: skip
    result = requests.validation(KNOWLEDGE).add(table).select(["duration_us", "latency_bucket"])
    assert [tuple(row.values()) for row in result.to_pylist()] == [
        (None, None),
        (0, 0),
        (12_000, 470),  # ceil(ln 12000 / ln 1.0202…)
        (3_500_000, 754),
    ]
