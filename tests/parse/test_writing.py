"""Lines that a format writes are read back as the same columns, as far as the format has them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.parse.custom import own_format
from tidemark.parse.detect import DECLARED, fields
from tidemark.parse.format import Format
from tidemark.parse.reading import Reading
from tidemark.parse.values import COLUMNS
from tidemark.settings.formats import FormatSettings

TYPES = COLUMNS | {"request": pa.string()}
OWN = {
    "by_nginx": FormatSettings(
        nginx='$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer"'
        ' "$http_user_agent" $request_time "$host"'
    ),
    "by_nginx_json": FormatSettings(
        nginx='{"t": "$time_iso8601", "c": {"ip": "$remote_addr"}, "r": "$request", "s": $status, "b": $bytes_sent,'
        ' "a": "$http_user_agent", "d": $request_time}'
    ),
    "by_apache": FormatSettings(apache='%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" %D'),
    "by_haproxy": FormatSettings(haproxy="%ci:%cp [%T] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %{+Q}r"),
    "by_tomcat": FormatSettings(tomcat='%t "%a" "%m" "%U%q" "%H" %s %B %{ms}T "%{User-Agent}i" "%v"'),
    "by_layout": FormatSettings(
        layout=("$time|$client_ip|$method|$target|$protocol|$status|$bytes|$duration|$_thread",),
        examples=("2026-11-21 10:00:00,123|203.0.113.7|GET|/a|HTTP/1.1|200|5|12 ms|main",),
    ),
    "by_keys": FormatSettings(
        keys={
            "time": ("ts",), "client_ip": ("request>remote_ip",), "method": ("request>method",),
            "target": ("request>uri",), "status": ("status",), "bytes": ("size",), "duration_s": ("duration",),
            "user_agent": ("request>headers>User-Agent",), "host": ("request>host",),
        }
    ),
}  # fmt: skip
FORMATS = [*DECLARED, *(own_format(name, declared) for name, declared in OWN.items())]
READING = Reading(formats=tuple(FORMATS[len(DECLARED) :]))

# Formats that have no quotes around texts: spaces, quotes and escapes cannot be in all of them.
UNQUOTED = (
    "npmplus",
    "zoraxy",
    "iis_w3c",
    "w3c_extended",
    "cloudfront",
    "squid",
    "uwsgi",
    "bunny",
    "confluence",
    "ovh_cdn",
    "by_layout",
)
# Microseconds that a time is exact to; others are to the second.
TIME = {
    "caddy_json": 1,
    "traefik_json": 1,
    "gcp_lb_json": 1,
    "azure_json": 1,
    "zoraxy": 1,
    "heroku": 1,
    "aws_alb": 1,
    "aws_elb": 1,
    "by_nginx_json": 1,
    "by_keys": 1,
    "akamai_json": 1_000,
    "bunny": 1_000,
    "caddy_console": 1_000,
    "haproxy_http": 1_000,
    "keycdn": 1_000,
    "gorouter": 1_000,
    "envoy": 1_000,
    "squid": 1_000,
    "by_layout": 1_000,
}
# The same of durations; others are to the microsecond.
DURATION = dict.fromkeys(
    ("iis_w3c", "iis_native", "haproxy_http", "haproxy_clf", "envoy", "traefik_clf", "aws_s3", "squid",
     "uwsgi", "akamai_json", "cloudflare_json", "heroku", "alibaba_cdn", "confluence", "gerrit",
     "nexus",
     "by_haproxy", "by_tomcat", "by_layout"), 1_000
) | {"gandi": 1_000_000, "icecast": 1_000_000}  # fmt: skip

ODD = st.characters(exclude_categories=("C", "Z"), include_characters='"\\', max_codepoint=0x2FFF)
WORD = st.text("abcXYZ019._~/;()", min_size=1, max_size=12).filter(lambda text: text.strip("._~/;()") != "")
# Milliseconds since 1970 have a digit less before September 2001, and are not taken for a time then.
FIRST_TIME = {"bunny": datetime(2001, 9, 10)}


def rows(format: Format) -> st.SearchStrategy[list[dict[str, Any]]]:
    text = (
        WORD
        if format.name in UNQUOTED
        else st.text(ODD, min_size=1, max_size=12).map(lambda each: f"a{each}")
    )
    word = WORD if format.name in UNQUOTED else st.text(ODD, max_size=12)
    first = FIRST_TIME.get(format.name, datetime(2000, 1, 1))
    times = st.datetimes(first, datetime(2099, 12, 31)).map(lambda time: time.replace(tzinfo=UTC))
    row = {
        "host": st.sampled_from(("www.example.org", "a-b.example.com")),
        "client_ip": st.one_of(st.builds(IPv4Address, st.integers(1 << 24, (1 << 32) - 1)),
                               st.builds(IPv6Address, st.integers(1 << 120, (1 << 128) - 1))).map(str),
        "remote_user": st.sampled_from((None, "alice")),
        "event_time": times,
        "method": st.sampled_from(("GET", "POST", "PROPFIND")),
        "path": word.map(lambda path: "/" + path.replace("?", "")),
        "query": st.one_of(st.none(), WORD),
        "protocol": st.sampled_from(("HTTP/1.1", "HTTP/2.0")),
        "status": st.integers(100, 599),
        "bytes": st.integers(0, 1 << 40),
        "referrer": st.one_of(st.none(), text.map(lambda each: f"https://example.org/{each}")),
        "user_agent": st.one_of(st.none(), text),
        "duration_us": st.integers(0, 10_000_000_000),
        "edge_country": st.sampled_from((None, "DE")),
    }  # fmt: skip
    return st.lists(st.fixed_dictionaries(row), min_size=1, max_size=20)


def columns_of(rows: list[dict[str, Any]]) -> dict[str, pa.Array]:
    return {name: pa.array([row.get(name) for row in rows], type) for name, type in TYPES.items()}


def read(format: Format, lines: pa.Array) -> list[dict[str, Any]]:
    texts = {"format": format.name, "fields": format.column_names or None, "site": "shop"}
    others = {name: pa.array([text] * len(lines), pa.string()) for name, text in texts.items()}
    result: list[dict[str, Any]] = pa.table(
        fields({"value": lines.cast(pa.binary()), **others}, READING)
    ).to_pylist()
    return result


def truncated(format: Format, row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row as exact as the format has them."""
    time, duration = TIME.get(format.name, 1_000_000), DURATION.get(format.name, 1)
    beyond = timedelta(microseconds=row["event_time"].microsecond % time)
    return {
        **row,
        "event_time": row["event_time"] - beyond,
        "duration_us": row["duration_us"] // duration * duration,
    }


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_what_is_written_is_read_back_equal(format: Format, data: st.DataObject) -> None:
    drawn = data.draw(rows(format))
    lines = format.write(columns_of(drawn))
    columns = format.template(tuple(TYPES)).columns & COLUMNS.keys()
    assert columns >= {"client_ip", "event_time", "status"}
    for line, row, result in zip(lines.to_pylist(), drawn, read(format, lines), strict=True):
        assert result["well_formed"] and result["read_as"] == format.name, line
        expected = truncated(format, row)
        assert {name: result[name] for name in columns} == {name: expected[name] for name in columns}, line


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_a_request_that_is_not_http_is_written_as_it_came(format: Format) -> None:
    row = {
        "client_ip": "203.0.113.7", "event_time": datetime(2026, 11, 21, 10, tzinfo=UTC), "status": 400, "bytes": 0,
        "duration_us": 0, "request": r"\x16\x03", "host": "www.example.org",
    }  # fmt: skip
    lines = format.write(columns_of([row]))
    [result] = read(format, lines)
    assert result["well_formed"], lines[0]
    assert [result[name] for name in ("client_ip", "status", "method", "path")] == [
        "203.0.113.7",
        400,
        None,
        None,
    ]
