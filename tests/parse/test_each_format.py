"""Each declared log format: its examples, envelopes around lines, what is no request, and damaged lines."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silver import requests
from tidemark.parse import objects
from tidemark.parse.columns import Knowledge
from tidemark.parse.detect import DECLARED, fields
from tidemark.parse.durations import microseconds
from tidemark.parse.formats import FORMATS
from tidemark.parse.nearest import nearest
from tidemark.parse.objects import JsonFormat
from tidemark.parse.text import Lines
from tidemark.parse.values import COLUMNS
from tidemark.parse.w3c import W3c

TIME = datetime(2026, 11, 21, 10, tzinfo=UTC)
# What the examples say; each case names what differs from it.
USUAL = {
    "host": "www.example.org", "client_ip": "203.0.113.7", "remote_user": None, "event_time": TIME, "method": "GET",
    "path": "/docs/", "query": "page=2", "protocol": "HTTP/1.1", "status": 200, "bytes": 512,
    "referrer": "https://example.org/a", "user_agent": "curl/8.5.0", "duration_us": None, "edge_country": None,
}  # fmt: skip
NO_HOST = {"host": None}
MS_12 = {"duration_us": 12_000}
NO_REFERRER = {"referrer": None}
NO_PROTOCOL = {"protocol": None}
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "combined": [
        NO_HOST | {"user_agent": FIREFOX},
        NO_REFERRER | {"remote_user": "alice", "path": "/", "query": None, "protocol": "HTTP/2.0"} | MS_12,
    ],
    "common": [
        NO_HOST | NO_REFERRER | {"remote_user": "alice", "user_agent": None},
        NO_HOST | NO_REFERRER | {"status": 304, "bytes": 0, "user_agent": None, "duration_us": 1_042},
    ],
    "vhost_combined": [{}],
    "caddy_json": [
        {"event_time": TIME + timedelta(microseconds=123_456), "protocol": "HTTP/2.0", "duration_us": 930}
    ],
    "traefik_json": [
        {"event_time": TIME + timedelta(microseconds=123_456), "protocol": "HTTP/2.0", "duration_us": 930}
    ],
    "gcp_lb_json": [{"event_time": TIME + timedelta(microseconds=123_456)} | NO_PROTOCOL | MS_12],
    "cloudflare_json": [{"protocol": "HTTP/2", "edge_country": "DE"}],
    "azure_json": [
        {"event_time": TIME + timedelta(microseconds=123_456), "protocol": "HTTP/2.0"} | MS_12,
        NO_REFERRER | MS_12,
    ],
    "fastly_json": [{"protocol": "HTTP/2"}],
    "akamai_json": [
        {
            "event_time": TIME + timedelta(milliseconds=123),
            "user_agent": "curl/8.5.0 (test)",
            "edge_country": "DE",
        }
        | MS_12
    ],
    "bunny": [{"method": None, "edge_country": "DE"} | NO_PROTOCOL],
    "nginx_json": [
        MS_12,
        {"event_time": TIME + timedelta(milliseconds=123), "protocol": "HTTP/2.0"} | NO_HOST | NO_REFERRER,
    ],
    "apache_json": [{"bytes": 0} | NO_PROTOCOL | NO_REFERRER],
    "caddy_console": [
        {"event_time": TIME + timedelta(milliseconds=123), "protocol": "HTTP/2.0", "duration_us": 930}
    ],
    "iis_native": [{"user_agent": None, "duration_us": 93_000} | NO_HOST | NO_PROTOCOL | NO_REFERRER],
    "haproxy_clf": [{"user_agent": None, "duration_us": 109_000} | NO_REFERRER | NO_HOST],
    "traefik_clf": [{"remote_user": "alice", "protocol": "HTTP/2.0"} | NO_HOST | MS_12],
    "nginx_ingress": [{"protocol": "HTTP/2.0"} | NO_HOST | MS_12],
    "nginx_proxy_manager": [
        NO_PROTOCOL,
        NO_PROTOCOL | NO_REFERRER | {"query": None, "status": 404, "bytes": 146},
    ],
    "npmplus": [{"protocol": "HTTP/2.0"} | MS_12],
    "uwsgi": [
        NO_HOST | NO_REFERRER | {"user_agent": None, "protocol": "HTTP/2.0"} | MS_12,
        NO_HOST
        | NO_REFERRER
        | {"user_agent": None, "protocol": "HTTP/2.0", "remote_user": "alice", "duration_us": 12_345},
    ],
    "zoraxy": [
        {"event_time": TIME + timedelta(microseconds=150_624), "bytes": 0} | NO_PROTOCOL | NO_REFERRER
    ],
    "haproxy_http": [
        {"event_time": TIME + timedelta(milliseconds=123), "user_agent": None, "duration_us": 109_000}
        | NO_REFERRER,
        {"event_time": TIME + timedelta(milliseconds=123), "user_agent": None, "duration_us": 109_000}
        | NO_REFERRER
        | NO_HOST,
    ],
    "envoy": [
        {"event_time": TIME + timedelta(milliseconds=310), "protocol": "HTTP/2", "duration_us": 226_000}
        | NO_REFERRER,
        {"event_time": TIME + timedelta(milliseconds=310), "duration_us": 5_000} | NO_REFERRER,
    ],
    "iis_w3c": [
        {"user_agent": "Mozilla/5.0 (Windows NT 10.0; Win64)", "duration_us": 93_000} | NO_HOST | NO_PROTOCOL
    ],
    "w3c_extended": [{}],
    "aws_alb": [{"event_time": TIME + timedelta(microseconds=186_641), "duration_us": 171_000} | NO_REFERRER],
    "aws_elb": [{"event_time": TIME + timedelta(microseconds=945_958), "duration_us": 1_178} | NO_REFERRER],
    "aws_s3": [{"path": "/my-bucket/docs/index.html", "duration_us": 17_000}],
    "cloudfront": [{"protocol": "HTTP/2.0", "user_agent": "curl/8.5.0 (test)", "duration_us": 1_000}],
    "squid": [
        {"event_time": TIME + timedelta(milliseconds=123), "user_agent": None, "duration_us": 915_000}
        | NO_PROTOCOL
        | NO_REFERRER
    ],
    "gandi": [{"duration_us": 0}],
    "ovh": [{}],
    "varnishncsa": [{}],
    "icecast": [{"path": "/stream.ogg", "duration_us": 1_807_000_000} | NO_HOST],
    "alibaba_cdn": [NO_PROTOCOL | MS_12],
    "confluence": [NO_HOST | {"remote_user": "alice"} | MS_12],
    "gerrit": [
        NO_HOST | {"remote_user": "alice"} | MS_12,
        NO_HOST
        | NO_REFERRER
        | {"remote_user": "alice", "event_time": TIME + timedelta(milliseconds=61)}
        | MS_12,
    ],
    "gin": [
        NO_HOST | NO_REFERRER | NO_PROTOCOL | {"bytes": 0, "user_agent": None, "duration_us": 12_500},
        NO_HOST | NO_REFERRER | NO_PROTOCOL | {"bytes": 0, "user_agent": None, "duration_us": 87},
    ],
    "keycdn": [{"event_time": TIME + timedelta(milliseconds=123)} | NO_PROTOCOL],
    "ovh_cdn": [{}],
    "php_server": [
        NO_HOST | NO_REFERRER | NO_PROTOCOL | {"method": method, "bytes": 0, "user_agent": None}
        for method in ("GET", None)
    ],
    "gorouter": [
        {"event_time": TIME + timedelta(milliseconds=123)} | MS_12,
        {"event_time": TIME + timedelta(milliseconds=123)} | MS_12,
    ],
    "glassfish": [
        {"remote_user": user, "user_agent": None} | NO_HOST | NO_REFERRER for user in ("alice", None)
    ],
    "nexus": [{"remote_user": "alice"} | NO_HOST | NO_REFERRER | MS_12],
    "heroku": [
        {"user_agent": None, "duration_us": 18_000} | NO_REFERRER | NO_PROTOCOL,
        {"user_agent": None, "duration_us": 18_000} | NO_REFERRER | NO_PROTOCOL,
    ],
}
CASES = [(each, number) for each in DECLARED for number in range(len(each.examples))]
LINES = [each.examples[number] for each, number in CASES if each.detected and not isinstance(each, W3c)]


def arrays(lines: Sequence[str | bytes], named: str | None, header: str | None) -> dict[str, pa.Array]:
    values = [line.encode() if isinstance(line, str) else line for line in lines]
    others = {"format": named, "fields": header, "site": "default"}
    return {"value": pa.array(values, pa.binary())} | {
        name: pa.array([value] * len(lines), pa.string()) for name, value in others.items()
    }


def read(
    lines: Sequence[str | bytes], named: str | None = None, header: str | None = None
) -> list[dict[str, Any] | None]:
    """The columns of lines; None for a line that no format has."""
    result = fields(arrays(lines, named, header))
    assert all(len(column) == len(lines) for column in result.values())
    rows = pa.table(result).select(list(COLUMNS)).to_pylist()
    return [
        row if sound else None for row, sound in zip(rows, result["well_formed"].to_pylist(), strict=True)
    ]


def detected_as(
    lines: Sequence[str], named: str | None = None, header: str | None = None
) -> list[str | None]:
    return fields(arrays(lines, named, header))["read_as"].to_pylist()  # type: ignore[no-any-return]


def test_every_format_has_its_file_and_its_name() -> None:
    assert [each.name for each in DECLARED] == list(FORMATS)
    assert len(FORMATS) == len(set(FORMATS)) and set(FORMATS) >= set(EXAMPLES)
    assert all(each.about.endswith(".") and each.docs.startswith("https://") for each in DECLARED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].name} {case[1]}")
def test_an_example_has_its_fields(case: tuple[Any, int]) -> None:
    format, number = case
    line = format.examples[number]
    header = format.fields if isinstance(format, W3c) else None
    rows = read([line], format.name, header)
    assert rows[0] is not None and rows[0]["event_time"] is not None and rows[0]["status"] is not None
    if format.detected:
        assert (read([line], None, header), detected_as([line], None, header)) == (rows, [format.name])
    if format.name in EXAMPLES:
        assert rows == [USUAL | EXAMPLES[format.name][number]]
        assert len(EXAMPLES[format.name]) == len(format.examples)
    if isinstance(format, W3c):
        return
    reached, lacking = format.progress(Lines.of(pa.array([line]), np.ones(1, bool)))
    assert reached[0] > 2 and lacking[0] == ""


def test_lines_of_all_formats_among_each_other_are_read_as_alone() -> None:
    """Enough lines for blocks of JSON objects, whose types differ from line to line."""
    chance = random.Random(1)
    mixed = [chance.choice(LINES) for _ in range(2_000)]
    alone = {line: read([line])[0] for line in LINES}
    assert read(mixed) == [alone[line] for line in mixed]
    for line in LINES:  # blocks of one kind
        assert read([line] * 100) == [alone[line]] * 100


@pytest.mark.parametrize("line", LINES)
def test_blanks_around_a_line_and_its_end_make_no_difference(line: str) -> None:
    [expected] = read([line])
    assert expected is not None
    around = ("{} ", "{}\r", "{}\r\n", "\ufeff{}", " \t{}\t", "\u200b{}\u00a0", "\x1e{}\n")
    for variant in (each.replace("{}", line) for each in around):
        assert read([variant]) == [expected], variant


def docker(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stdout", "time": "2026-11-21T10:00:00.123456789Z"})


def csv(line: str, before: str, behind: str = "") -> str:
    """The line as a column of CSV, if it has the quotes by which it is recognized there."""
    return before + '"' + line.replace('"', '""') + '"' + behind if '"' in line else line


def nested(line: str, before: str, behind: str = "}") -> str:
    """The object of a line as a value in another one; other lines as they are."""
    return before + line + behind if line.startswith("{") else line


def escaped(line: str) -> str:
    """The line as a text of JSON without its quotes, if it has the escapes by which it is recognized there."""
    return json.dumps(line)[1:-1] if '"' in line else line


WRAPPERS = {
    "RFC 3164": "<190>Nov 21 10:00:00 web1 nginx: {}",
    "RFC 3164 with a process": "<134>Nov  1 10:00:00 web1 nginx[1234]: {}",
    "RFC 3164 as in a file": "Nov 21 10:00:00 web1 haproxy[1234]: {}",
    "RFC 3164 without a host": "<190>Nov 21 10:00:00 nginx: {}",
    "RFC 3164 with a year": "<190>Nov 21 2026 10:00:00 web1 nginx: {}",
    "RFC 3164 without a tag": "Nov 21 10:00:00 web1 {}",
    "RFC 3164 behind a relay": "<13>Nov 21 10:00:01 relay <190>Nov 21 10:00:00 web1 nginx: {}",
    "an ISO time": "2026-11-21T10:00:00.123456+01:00 web1 nginx[1]: {}",
    "RFC 5424": "<165>1 2026-11-21T10:00:00.003Z web1 nginx 1234 ID47 - {}",
    "RFC 5424 with data": '<165>1 2026-11-21T10:00:00.003Z web1 nginx - - [a@1 b="c\\"]" d="e"][f@2 g="h"] {}',
    "RFC 5424 behind its length": "512 <165>1 2026-11-21T10:00:00.003Z web1 nginx 1234 ID47 - {}",
    "docker logs -t": "2026-11-21T10:00:00.123456789Z {}",
    "docker compose logs -t": "web-1  | 2026-11-21T10:00:00.123456789Z {}",
    "logcli": '2026-11-21T10:00:00Z {app="web", pod="a"}   {}',
    "a carriage return as rsyslog escapes it": "Nov 21 10:00:00 web1 nginx: {}#015",
    "CRI": "2026-11-21T10:00:00.123456789Z stdout F {}",
    "CRI with a zone": "2026-11-21T10:00:00.123456789+01:00 stderr F {}",
    "a journald export": "MESSAGE={}",
    "docker compose logs": "web-1  | {}",
    "docker service logs": "web_nginx.1.k2j3h4@node1    | {}",
    "pm2 logs": "0|web      | {}",
    "kubectl logs --prefix": "[pod/web-7d9f8-x2/nginx] {}",
    "journalctl -o short-precise": "Nov 21 10:00:00.123456 web1 nginx[1]: {}",
    "journalctl -o short-full": "Sat 2026-11-21 10:00:00 UTC web1 nginx[1]: {}",
    "journalctl -o short-unix": "1795255200.123456 web1 nginx[1]: {}",
}
ENVELOPES = {
    "Docker": docker,
    "Fluent Bit": lambda line: json.dumps({"@timestamp": 1795255200.1, "log": line, "kubernetes": {"pod_name": "web"}}),
    "Vector": lambda line: json.dumps({"host": "web1", "message": line, "source_type": "file", "timestamp": "x"}),
    "Filebeat": lambda line: json.dumps({"@timestamp": "2026-11-21T10:00:00Z", "agent": {"type": "filebeat"},
                                         "host": {"name": "web1"}, "log": {"offset": 7}, "message": line}),
    "journald as JSON": lambda line: json.dumps({"MESSAGE": line, "PRIORITY": "6", "_PID": "7"}),
    "Docker in syslog": lambda line: WRAPPERS["RFC 3164"].replace("{}", docker(line)),
    "logcli without labels": lambda line: f"2026-11-21T11:00:00+01:00 {{}}       {line}",
    "GELF": lambda line: json.dumps({"version": "1.1", "host": "web1", "short_message": line, "timestamp": 1.5}),
    "GELF with both messages": lambda line: json.dumps({"full_message": line, "short_message": line[:40]}),
    "Splunk's export": lambda line: json.dumps({"preview": False, "offset": 0, "result": {"_raw": line}}),
    "NXLog": lambda line: json.dumps({"EventReceivedTime": "x", "Message": line, "raw_event": line[:40]}),
    "Datadog": lambda line: json.dumps({"id": "a", "content": {"service": "web", "message": line}}),
    # As viewers of logs export them: CloudWatch, Kibana, Grafana.
    "CSV behind a time": lambda line: csv(line, "2026-11-21 10:00:00.123,"),
    "CSV behind a number": lambda line: csv(line, "1795255200000,"),
    "CSV with quotes around all": lambda line: csv(line, '"Nov 21, 2026 @ 10:00:00.000","web,1",', ',"a ""b"""'),
    "CSV before labels": lambda line: csv(line, "", ',"{app=""web""}",1795255200000000000'),
    "CSV behind labels": lambda line: csv(line, '"{app=""web"", pod=""a""}",'),
    "escaped": escaped,
    # As viewers of logs and agents export them: Google Cloud, Elasticsearch, Splunk, Fluent Bit.
    "jsonPayload": lambda line: nested(line, '{"insertId": "a", "jsonPayload":', ', "timestamp": "2020-01-01"}'),
    "_source": lambda line: nested(line, '{"_index": "a", "_score": null, "_source":'),
    "event": lambda line: nested(line, '{"time": 1577836800.5, "host": "web1", "event": '),
    "log_processed": lambda line: nested(line, '{"log_processed":', ', "kubernetes": {"pod_name": "web-1"}}'),
    "message in Docker": lambda line: docker(nested(line, '{"message": ')),
    "syslog in Docker": lambda line: docker(WRAPPERS["RFC 5424"].replace("{}", line)),
    **{name: lambda line, text=text: text.replace("{}", line) for name, text in WRAPPERS.items()},
}  # fmt: skip


def formats_and_columns(lines: Sequence[str]) -> list[dict[str, Any]]:
    columns = fields(arrays(lines, None, None))
    return pa.table(columns).select([*COLUMNS, "well_formed", "read_as"]).to_pylist()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def as_read() -> list[dict[str, Any]]:
    return formats_and_columns(LINES)


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_line_in_an_envelope_is_read(envelope: str, as_read: list[dict[str, Any]]) -> None:
    wrapped = [ENVELOPES[envelope](line) for line in LINES]
    assert formats_and_columns(wrapped * 4) == as_read * 4


ADDRESSES = ["203.0.113.7", "2001:db8::7", "2001:db8:0:0:0:0:0:7", "198.51.100.1, 203.0.113.7"]
REST = '- alice [21/Nov/2026:10:00:00 +0000] "GET /docs/?page=2 HTTP/2.0" 200 512'


@pytest.mark.parametrize(
    "words",
    [
        "[2026-11-21 10:00:00 +0000] [7] [INFO] ",
        "2026-11-21 10:00:00,123 - access - INFO - ",
        "INFO ",
        "[access] ",
        "web-7d9f8-x2 nginx ",
        "12 ",
        "10:00:00 web.1  | ",
        "2026-11-21T10:00:00 ",
        "2026-11-21T10:00:00,",
        "1795255200000,",
        "web1\tnginx\t",
        "2026-11-21 10:00:00.123 ",
        "Nov 21 10:00:00 web1 nginx ",
        "web/nginx/a1 ",
        "Sat Nov 21 10:00:00 2026 > ",
    ],
)
def test_words_before_a_line_make_no_difference(words: str) -> None:
    lines = [f"{address} {REST}{agent}" for address in ADDRESSES for agent in ("", ' "-" "curl/8.5.0"')]
    expected = read(lines)
    assert all(row and row["client_ip"] and row["remote_user"] == "alice" for row in expected)
    assert read([words + line for line in lines]) == expected


@pytest.mark.parametrize(
    "file", ["access.log.1:", "logs/access.log:12:", "INFO:gunicorn.access:", "access.log-12-"]
)
def test_a_name_before_an_address_makes_no_difference(file: str) -> None:
    lines = [f"{address} {REST}" for address in (*ADDRESSES, "203.0.113.7:4711", "::1", "fe80::1")]
    if not file.endswith("-"):  # which hosts may have
        lines += [f"{host} {ADDRESSES[0]} {REST}" for host in ("www.example.org:443", "www.example.org")]
    expected = read(lines)
    assert all(row and row["client_ip"] for row in expected)
    assert read([file + line for line in lines]) == expected


@pytest.mark.parametrize(
    "words",
    [
        "access.log:",
        "access.log:12:",
        "access.log-12-",
        "web-7d9f8-x2 nginx ",
        "0|app  | 2026-11-21T10:00:00: ",
        "2026-11-21T10:00:00Z app[d8d9] ams [info] ",
        "2026-11-21T10:00:00.123456+00:00 ecs/web/abc ",
        "[2026-11-21T10:00:00Z] ",
        "2026-11-21 10:00:00 UTC ",
        "<190>Nov 21 10:00:00 ",
        "Nov 21 10:00:00 web1 nginx:",
        "\x1e",
    ],
)
def test_words_before_an_object_make_no_difference(words: str) -> None:
    lines = [line for line in LINES if line.startswith("{") or "\t{" in line]
    assert len(lines) > 10
    assert formats_and_columns([words + line for line in lines]) == formats_and_columns(lines)


@pytest.mark.parametrize(
    "time", ["2026-11-21T10:00:00Z ", "Nov 21 10:00:00 web1 ", "web-1  | 2026-11-21T10:00:00Z "]
)
@pytest.mark.parametrize(
    "head",
    ["2001:db8::7", "203.0.113.7:4711", "www.example.org:443 203.0.113.7", '"203.0.113.7"', '"2001:db8::7"'],
)
def test_the_beginning_of_a_line_is_no_tag_of_syslog(time: str, head: str) -> None:
    line = f'{head} {REST} "-" "curl/8.5.0"'
    assert read([time + line]) == read([line]) != [None]


def test_the_name_of_a_source_file_is_no_host() -> None:
    [row] = read([f"2026-11-21 10:00:00,123 INFO access.py:123 {ADDRESSES[0]} {REST}"])
    assert row is not None and (row["client_ip"], row["host"]) == (ADDRESSES[0], None)


@pytest.mark.parametrize("head", ["", "Nov 21 10:00:00 web1 app[7]: "])
def test_control_characters_that_rsyslog_escapes_are_as_if_they_were_not_there(head: str) -> None:
    coloured = '203.0.113.7 - - [21/Nov/2026 10:00:00] "#033[37mGET /docs/ HTTP/1.1#033[0m" 200 512'
    plain = coloured.replace("#033[37m", "").replace("#033[0m", "")
    tabbed = next(each for each in DECLARED if each.name == "caddy_console").examples[0]
    for escaped, line in (
        (coloured, plain),
        (f"{plain}#015", plain),
        (f"{PLAIN_COMBINED}#015#012", PLAIN_COMBINED),
        (f"{nginx()}#015", nginx()),
        (tabbed.replace("\t", "#011"), tabbed),
    ):
        assert read([head + escaped]) == read([line]) != [None]
    [row] = read([f'{head}{PLAIN_COMBINED[:-1]}#011#015#033a"'])
    assert row is not None and row["user_agent"].endswith("#011#015#033a")


@pytest.mark.parametrize(
    ("user", "expected"), [('""', None), (" - ", None), ("- -", None), ("John Doe", "John Doe"), ("-", None)]
)
def test_a_user_may_have_blanks_or_be_empty(user: str, expected: str | None) -> None:
    [row] = read(
        [f'203.0.113.7 - {user} [21/Nov/2026:10:00:00 +0000] "GET /docs/ HTTP/2.0" 200 512 "-" "curl/8"']
    )
    assert row is not None
    assert (row["client_ip"], row["remote_user"], row["path"]) == ("203.0.113.7", expected, "/docs/")


def test_at_most_two_envelopes_are_looked_through() -> None:
    assert read([docker(docker(LINES[0]))]) == read([LINES[0]])
    assert read([docker(docker(docker(LINES[0])))]) == [None]


@pytest.mark.parametrize(
    "envelope, microseconds",
    [
        ('{"insertId":"a","jsonPayload":<object>,"timestamp":"2026-11-21T10:00:00Z"}', 0),
        ('{"time":1795255200.5,"event":<object>}', 500_000),
        ('{"@timestamp":"2026-11-21 11:00:00,250 +0100","nginx":{"access":<object>}}', 250_000),
        ('{"log":"<text>","stream":"stdout","time":"2026-11-21T10:00:00.123456789Z"}', 123_456),
        ('{"message":"<text>","date":"none"}', None),
        ('{"message":<object>,"x":"2026-11-21T10:00:00Z"}', None),
    ],
)
def test_an_object_without_a_time_has_that_of_its_envelope(envelope: str, microseconds: int | None) -> None:
    line = nginx(time_iso8601=None, request_time="0.012")
    wrapped = envelope.replace("<object>", line).replace("<text>", escaped(line))
    [row] = read([wrapped])
    assert row is not None
    time = None if microseconds is None else TIME + timedelta(microseconds=microseconds)
    assert row["event_time"] == time
    assert (row["client_ip"], row["path"], row["duration_us"]) == ("203.0.113.7", "/docs/", 12_000)


def test_a_named_format_holds_within_an_envelope_too() -> None:
    [ovh] = [each for each in DECLARED if each.name == "ovh"]
    wrapped = docker(ovh.examples[0])
    assert read([wrapped], "ovh") == [USUAL]
    assert detected_as([wrapped], "ovh") == ["ovh"]
    assert read([docker(LINES[0])], "caddy_json") == [None]


@pytest.mark.parametrize(
    "line",
    [
        "", " ", "-", "{}", "[]", "{", "}{", '{"a":1}', "null", "#Fields: date time c-ip", "# a comment",
        "2026/11/21 10:00:00 [error] 7#7: *1 open() \"/x\" failed (2: No such file), client: 203.0.113.7",
        "[Sat Nov 21 10:00:00.123456 2026] [ssl:info] [pid 7] [client 203.0.113.7:41342] AH02008: SSL library error",
        '{"level":"info","ts":1795255200.1,"logger":"tls","msg":"cleaning storage unit"}',
        '{"level":"error","ts":1795255200.1,"logger":"http.log.error","msg":"dial tcp: refused","request":{"remote_ip":'
        '"203.0.113.7","method":"GET","uri":"/"}}',
        '{"level":"error","ts":1795255200.1,"logger":"http.log.error.log0","msg":"dial tcp: refused","request":'
        '{"remote_ip":"203.0.113.7","method":"GET","uri":"/"},"duration":0.001,"status":502,"err_id":"a","err_trace":"b"}',
        '2026/11/21 10:00:00.123\terror\thttp.log.error\tdial tcp: refused\t{"request": {"remote_ip": "203.0.113.7",'
        ' "method": "GET", "host": "a", "uri": "/"}, "duration": 0.001, "status": 502, "err_id": "a"}',
        '2026-11-21T10:00:00.123Z\terror\thttp.log.error.log0\tdial tcp: refused\t{"request": {"remote_ip":'
        ' "203.0.113.7", "method": "GET", "host": "a", "uri": "/"}, "duration": 0.001, "status": 502}',
        '{"level":"info","msg":"Configuration loaded from flags.","time":"2026-11-21T10:00:00Z"}',
        "203.0.113.7:41342 [21/Nov/2026:10:00:00.123] web~/1: SSL handshake failure",
        "203.0.113.7:41342 [21/Nov/2026:10:00:00.123] web db/db1 0/0/5007 0 -- 1/1/1/1/0 0/0",
        "Nov 21 10:00:00 web1 haproxy[7]: Proxy web started.",
        '2026-11-21T10:00:00.945958Z my-lb 203.0.113.7:2817 10.0.0.1:80 0.1 0.1 0.1 - - 82 305 "- - - " "-" - -',
        "1795255200.123 0 203.0.113.7 TCP_MISS GET http://www.example.org/ - NONE/- -",
        "Nov 21 10:00:00 web1 sshd[7]: Failed password for root from 203.0.113.7 port 22 ssh2",
        "2026-11-21T10:00:00.123456789Z stdout F listening on 0.0.0.0:80",
        "2026-11-21 10:00:00,123 INFO request_id=7 GET / 200",
    ],
)  # fmt: skip
def test_what_is_no_request_is_not_read(line: str) -> None:
    assert read([line]) == read([docker(line)]) == [None]


def test_an_address_behind_the_time_is_not_overlooked() -> None:
    line = '[21/Nov/2026:10:00:00 +0000] 203.0.113.7 "GET / HTTP/1.1" 200 512 "-" "curl/8.5.0"'
    assert read([line]) == [None]  # `--infer` knows which word is the client


def test_several_records_in_one_line_are_not_read_as_one() -> None:
    record = next(each for each in DECLARED if each.name == "azure_json").examples[0]
    assert read([f'{{"records": [{record}]}}']) == read([record]) != [None]
    assert read([f'{{"records": [{record}, {record}]}}']) == [None]


def nginx(**keys: Any) -> str:
    usual = {"remote_addr": "203.0.113.7", "time_iso8601": "2026-11-21T10:00:00+00:00",
             "request": "GET /docs/?page=2 HTTP/1.1", "status": 200, "body_bytes_sent": 512}  # fmt: skip
    return json.dumps(usual | keys)


@pytest.mark.parametrize(
    "line, differs",
    [
        (nginx(), {}),
        (nginx(routeKey="GET /other"), {}),
        (nginx(status="404"), {"status": 404}),
        (nginx(status=404.0), {"status": 404}),
        (nginx(body_bytes_sent="-"), {"bytes": 0}),
        (nginx(body_bytes_sent=None), {"bytes": 0}),
        (nginx(body_bytes_sent=5_000_000_000), {"bytes": 5_000_000_000}),
        (nginx(http_user_agent="naïve \u2603 \U0001d11e"), {"user_agent": "naïve \u2603 \U0001d11e"}),
        (nginx(http_user_agent='a "b" \\c'), {"user_agent": 'a "b" \\c'}),
        (nginx(status=None)[:-1] + r', "\u0073tatus": 404}', {"status": 404}),
        (nginx(http_user_agent="a\nb\x00c"), {"user_agent": r"a\x0Ab\x00c"}),
        (nginx(http_user_agent=["a", "b"]), {"user_agent": "a"}),
        (nginx(http_user_agent=[]), {}),
        (nginx(http_user_agent=[1]), {}),
        (nginx(http_user_agent=True), {}),
        (nginx(http_user_agent={"a": "b"}), {}),
        (nginx(http_user_agent={"original": "b"}), {}),
        (nginx(user_agent={"original": "b"}), {"user_agent": "b"}),
        (nginx(http_user_agent=12), {"user_agent": "12"}),
        (nginx(http_user_agent="\\ud800").replace("\\\\ud800", "\\ud800"), {"user_agent": "?"}),
        (nginx()[:-1] + ', "status": 404}', {"status": 404}),
        (nginx()[:-1] + ', "x": [1, {"y": null}, "z"], "s": NaN}', {}),
        (nginx(request="-"), {"method": None, "path": None, "query": None, "protocol": None}),
        (nginx(request="/docs/", request_method="POST"), {"method": "POST", "protocol": None, "query": None}),
        (nginx(request=None, request_uri="/docs/?page=2"), {"method": None, "protocol": None}),
        (nginx(time_iso8601=None, time_local="21/Nov/2026:11:00:00 +0100"), {}),
        (nginx(time_iso8601=None, msec="1795255200.000"), {}),
        (nginx(time_iso8601=None, msec=1795255200123), {"event_time": TIME + timedelta(milliseconds=123)}),
        (nginx(remote_addr="203.0.113.7:80"), {}),
        (nginx(remote_addr="[2001:db8::7]:80"), {"client_ip": "2001:db8::7"}),
        (nginx(remote_addr="fe80::7%eth0"), {"client_ip": "fe80::7"}),
        (nginx(remote_addr="[fe80::7%12]:80"), {"client_ip": "fe80::7"}),
        (nginx(duration=58.33), {"duration_us": 58_330_000}),
        (nginx(duration=58.33, controller="SessionsController"), {"duration_us": 58_330}),
        (nginx(ua="curl/8.5.0"), {"user_agent": "curl/8.5.0"}),
        (nginx(status=None), {"status": None}),
        (nginx(status=0), {"status": None}),
        (nginx(time_iso8601="2026-11-21T11:00:00+01"), {}),
        # Vercel names the function of a request, too.
        (nginx(request=None, proxy={"method": "GET", "path": "/docs/?page=2"}, path="/[name]"), {"protocol": None}),
        # What templates for JSON become without values, and with several.
        (nginx(body_bytes_sent="@").replace('"@"', "-"), {"bytes": 0}),
        (nginx(body_bytes_sent="@").replace('"@"', ""), {"bytes": 0}),
        (nginx(http_user_agent="a:-, b:1, 2", x="@").replace('"@"', "0.5, 0.7 : -"), {"user_agent": "a:-, b:1, 2"}),
        (nginx()[:-1] + ",}", {}),
        (nginx(http_user_agent="a@b").replace("@", "\t"), {"user_agent": r"a\x09b"}),
        # Of a JSON array.
        ("[" + nginx() + "]", {}), ("[ " + nginx() + ",", {}), (nginx() + ",", {}), (nginx() + " ]", {}),
        (", " + nginx(), {}),
        # Names with dots, as libraries for logging in Elastic's schema write them.
        (
            json.dumps({
                "@timestamp": "2026-11-21T10:00:00Z", "http.request.method": "GET", "url.path": "/docs/",
                "url.query": "page=2", "http.version": "1.1", "source.ip": "203.0.113.7",
                "http": {"response": {"status_code": 200}}, "http.response.body.bytes": 512,
                "user_agent.original": "curl/8.5.0",
            }),
            {"user_agent": "curl/8.5.0"},
        ),
    ],
)  # fmt: skip
def test_odd_objects(line: str, differs: dict[str, Any]) -> None:
    plain = USUAL | {"host": None, "referrer": None, "user_agent": None}
    assert read([line]) == [plain | differs]
    # Among others, Arrow tries to read it first; or it is what the types are taken from.
    for place in (0, 100, 199):
        lines = [nginx()] * 200
        lines[place] = line
        assert read(lines)[place] == plain | differs
        assert read([line] * 200) == [plain | differs] * 200


@pytest.mark.parametrize(
    "name, old, new, differs",
    [
        ("aws_s3", '"curl/8.5.0"', '"a "b" c"', {"user_agent": 'a "b" c'}),
        ("haproxy_http", "/109 200 512", "/+109 200 +512", {}),
        ("haproxy_http", " 200 512", " -1 0", {"status": None, "bytes": 0}),
        ("envoy", '" 200 ', '" 0 ', {"status": None}),
        ("caddy_json", '"status":200', '"status":0', {"status": None}),
        ("traefik_json", '"DownstreamStatus":200', '"DownstreamStatus":0', {"status": None}),
        ("cloudflare_json", '"EdgeResponseStatus":200', '"EdgeResponseStatus":0', {"status": None}),
        ("gcp_lb_json", '"status":200', '"status":null', {"status": None}),
    ],
)
def test_a_field_that_servers_write_in_another_way(
    name: str, old: str, new: str, differs: dict[str, Any]
) -> None:
    [example, *_] = [example for each in DECLARED if each.name == name for example in each.examples]
    example = example.replace('": ', '":')
    assert old in example
    assert read([example.replace(old, new)]) == [USUAL | EXAMPLES[name][0] | differs]


def test_behind_a_trusted_proxy_traefik_gives_its_own_clients_address() -> None:
    [traefik] = [each.examples[0] for each in DECLARED if each.name == "traefik_json"]
    [row] = read([traefik.replace('"ClientHost":"203.0.113.7"', '"ClientHost":"198.51.100.1, 203.0.113.9"')])
    assert row is not None and row["client_ip"] == "203.0.113.7"


@pytest.mark.parametrize(
    "instance, taken, microseconds",
    [
        ("appgw_2", 0.034, 34_000),
        ("appgw_2", 205, None),
        ("ApplicationGatewayRole_IN_0", 205, 205_000),
        ("ApplicationGatewayRole_IN_0", 0.205, 205_000),
    ],
)
def test_durations_of_azures_gateways_are_in_two_units(
    instance: str, taken: float, microseconds: int | None
) -> None:
    # Fields from Microsoft's documentation of the two versions.
    gateway = {"clientIP": "203.0.113.7", "httpMethod": "GET", "requestUri": "/docs/", "httpStatus": 200}
    line = {
        "time": "2026-11-21T10:00:00Z",
        "properties": gateway | {"instanceId": instance, "timeTaken": taken},
    }
    [row] = read([json.dumps(line)])
    assert row is not None and row["duration_us"] == microseconds


@pytest.mark.parametrize(
    "keys, differs",
    [
        (  # standard logs of CloudFront in their second version
            {"date": "2026-11-21", "time": "10:00:00", "x-edge-location": "FRA50-C1", "sc-bytes": "512",
             "c-ip": "203.0.113.7", "cs-method": "GET", "cs(Host)": "d1.cloudfront.net", "cs-uri-stem": "/docs/",
             "cs-uri-query": "page=2", "sc-status": "200", "cs(Referer)": "-", "cs(User-Agent)": "curl/8.5.0%20(test)",
             "cs-protocol-version": "HTTP/2.0", "time-taken": "0.217", "x-host-header": "www.example.org"},
            {"protocol": "HTTP/2.0", "user_agent": "curl/8.5.0 (test)", "duration_us": 217_000,
             "host": "www.example.org"},
        ),
        (  # IIS, by a shipper that keeps the names of the columns
            {"date": "2026-11-21", "time": "10:00:00", "s-ip": "10.0.0.4", "cs-method": "GET", "cs-uri-stem": "/docs/",
             "cs-uri-query": "page=2", "c-ip": "203.0.113.7", "cs(User-Agent)": "curl/8.5.0+(test)", "sc-status": 200,
             "sc-bytes": 512, "time-taken": 217},
            {"user_agent": "curl/8.5.0 (test)", "duration_us": 217_000},
        ),
        (  # a date and a time of day with a zone
            {"date": "21/Nov/2026", "time": "11:00:00 +0100", "ip": "203.0.113.7", "request": "GET /docs/?page=2",
             "status": 200, "bytes": 512, "time_taken": 12.5},
            {"duration_us": 12_500},
        ),
        (  # the example in the documentation of Amazon API Gateway
            {"requestId": "c6af9ac6", "ip": "203.0.113.7", "caller": "-", "user": "-", "httpMethod": "GET",
             "requestTime": "21/Nov/2026:10:00:00 +0000", "resourcePath": "/docs/?page=2", "status": "200",
             "protocol": "HTTP/1.1", "responseLength": "512"},
            {"protocol": "HTTP/1.1"},
        ),
        (  # loggers of Node and Fastify, whose own host is not that of the request
            {"level": 30, "time": 1795255200000, "hostname": "web1", "req": {"method": "GET", "url": "/docs/?page=2",
             "headers": {"host": "www.example.org", "user-agent": "curl/8.5.0"}, "remoteAddress": "203.0.113.7"},
             "res": {"statusCode": 200}, "responseTime": 12, "bytes": 512},
            {"host": "www.example.org", "user_agent": "curl/8.5.0", "duration_us": 12_000},
        ),
        (  # APISIX
            {"start_time": 1795255200000, "client_ip": "203.0.113.7", "latency": 12.5, "apisix_latency": 2.5, "request":
             {"uri": "/docs/?page=2", "method": "GET", "headers": {"host": "www.example.org"}}, "response":
             {"status": 200, "size": 512}},
            {"host": "www.example.org", "duration_us": 12_500},
        ),
        (  # Echo
            {"time": "2026-11-21T10:00:00Z", "remote_ip": "203.0.113.7", "method": "GET", "uri": "/docs/?page=2",
             "status": 200, "latency": 12500000, "latency_human": "12.5ms", "bytes_out": 512},
            {"duration_us": 12_500},
        ),
        (  # log drains of Vercel
            {"id": "1", "host": "www.example.org", "timestamp": 1795255200000, "proxy": {
             "timestamp": 1795255200000, "method": "GET", "host": "www.example.org", "path": "/docs/?page=2",
             "userAgent": ["curl/8.5.0"], "referer": "https://example.org/a", "statusCode": 200,
             "clientIp": "203.0.113.7", "responseByteSize": 512}, "statusCode": 200},
            {"user_agent": "curl/8.5.0", "referrer": "https://example.org/a", "host": "www.example.org"},
        ),
        (  # Hapi's and Kibana's logger, which writes methods in lower case
            {"type": "response", "@timestamp": "2026-11-21T10:00:00Z", "method": "get", "statusCode": 200, "req":
             {"url": "/docs/?page=2", "method": "get", "remoteAddress": "203.0.113.7"}, "res": {"statusCode": 200,
             "responseTime": 12, "contentLength": 512}},
            {"duration_us": 12_000},
        ),
        (  # Ghost
            {"name": "Log", "hostname": "web1", "pid": 1, "req": {"url": "/docs/?page=2", "method": "GET", "headers":
             {"host": "www.example.org"}}, "res": {"_headers": {"content-length": "512"}, "statusCode": 200,
             "responseTime": "12ms"}, "time": "2026-11-21T10:00:00Z"},
            {"client_ip": None, "host": "www.example.org", "duration_us": 12_000},
        ),
        (  # Bunyan and Pino, without a header for the host
            {"hostname": "web1", "pid": 1, "req": {"method": "GET", "url": "/docs/?page=2", "remoteAddress":
             "203.0.113.7"}, "res": {"statusCode": 200, "headers": {"content-length": "512"}}, "responseTime": 3,
             "time": 1795255200000},
            {"host": None, "duration_us": 3_000},
        ),
        (  # express-winston
            {"meta": {"req": {"url": "/docs/?page=2", "method": "GET", "headers": {"user-agent": "curl/8.5.0"}}, "res":
             {"statusCode": 200}, "responseTime": 12}, "timestamp": "2026-11-21T10:00:00Z", "message": "HTTP GET"},
            {"client_ip": None, "bytes": 0, "user_agent": "curl/8.5.0", "duration_us": 12_000},
        ),
        (  # Morgan
            {"date": "2026-11-21T10:00:00Z", "method": "GET", "url": "/docs/?page=2", "status": "200", "remote-addr":
             "203.0.113.7", "response-time": "12.345", "bytes": 512},
            {"duration_us": 12_345},
        ),
        (  # nginx in seconds; a whole number could be in any unit
            {"time": "2026-11-21T10:00:00Z", "ip": "203.0.113.7", "request": "GET /docs/?page=2", "status": 200,
             "bytes": 512, "response_time": 0.012},
            {"duration_us": 12_000},
        ),
        (
            {"time": "2026-11-21T10:00:00Z", "ip": "203.0.113.7", "request": "GET /docs/?page=2", "status": 200,
             "bytes": 512, "response_time": 12},
            {"duration_us": None},
        ),
        (  # Railway
            {"timestamp": "2026-11-21T10:00:00Z", "method": "GET", "path": "/docs/?page=2", "httpStatus": 200,
             "totalDuration": 13137, "txBytes": 512, "srcIp": "203.0.113.7", "clientUa": "curl/8.5.0"},
            {"user_agent": "curl/8.5.0", "duration_us": 13_137_000},
        ),
        (  # GitLab's Workhorse, behind nginx
            {"duration_ms": 123, "method": "GET", "remote_addr": "127.0.0.1:0", "remote_ip": "203.0.113.7", "status":
             200, "time": "2026-11-21T10:00:00Z", "uri": "/docs/?page=2", "written_bytes": 512},
            {"duration_us": 123_000},
        ),
        (  # slog-gin and its like
            {"time": "2026-11-21T10:00:00Z", "msg": "200: OK", "request": {"time": "2026-11-21T09:59:59Z", "method":
             "GET", "host": "www.example.org", "path": "/docs/", "query": "page=2", "ip": "203.0.113.7:63542",
             "length": 9, "user-agent": "curl/8.5.0"}, "response": {"latency": 13840708, "status": 200, "length": 512}},
            {"host": "www.example.org", "user_agent": "curl/8.5.0", "duration_us": 13_841},
        ),
        (  # Serilog, in its compact form
            {"@t": "2026-11-21T10:00:00Z", "RequestMethod": "GET", "RequestPath": "/docs/?page=2", "StatusCode": 200,
             "Elapsed": 12.3456},
            {"client_ip": None, "bytes": 0, "duration_us": 12_346},
        ),
        (
            {"Timestamp": "2026-11-21T10:00:00Z", "Properties": {"RequestMethod": "GET", "RequestPath":
             "/docs/?page=2", "StatusCode": 200, "Elapsed": 12.3456, "ClientIp": "203.0.113.7"}},
            {"bytes": 0, "duration_us": 12_346},
        ),
        (  # ASP.NET Core on the console
            {"Timestamp": "2026-11-21T10:00:00Z", "EventId": 2, "State": {"ElapsedMilliseconds": 12.5, "StatusCode":
             200, "ContentLength": 512, "Protocol": "HTTP/1.1", "Method": "GET", "Host": "www.example.org:5000",
             "Path": "/docs/", "QueryString": "?page=2"}},
            {"client_ip": None, "protocol": "HTTP/1.1", "host": "www.example.org", "duration_us": 12_500},
        ),
        (  # the registry of Docker
            {"http.request.host": "www.example.org", "http.request.method": "GET", "http.request.remoteaddr":
             "203.0.113.7:41000", "http.request.uri": "/docs/?page=2", "http.request.useragent": "docker/24",
             "http.response.status": 200, "http.response.written": 512, "http.response.duration": "1.2ms",
             "time": "2026-11-21T10:00:00Z"},
            {"host": "www.example.org", "user_agent": "docker/24", "duration_us": 1_200},
        ),
        (  # tower-http of Rust
            {"timestamp": "2026-11-21T10:00:00Z", "fields": {"message": "finished processing request", "status": 200,
             "latency": "1 ms"}, "target": "tower_http::trace::on_response", "span": {"method": "GET", "uri":
             "/docs/?page=2", "version": "HTTP/1.1", "name": "request"}},
            {"client_ip": None, "bytes": 0, "protocol": "HTTP/1.1", "duration_us": 1_000},
        ),
        (  # chi's httplog
            {"timestamp": "2026-11-21T10:00:00Z", "message": "Response: 200 OK", "httpRequest": {"url":
             "http://www.example.org/docs/?page=2", "method": "GET", "path": "/docs/", "remoteIP": "203.0.113.7:52146",
             "proto": "HTTP/1.1"}, "httpResponse": {"status": 200, "bytes": 512, "elapsed": 0.345}},
            {"host": "www.example.org", "protocol": "HTTP/1.1", "duration_us": 345},
        ),
        (  # Ory
            {"http_request": {"headers": {"user-agent": "curl/8.5.0"}, "host": "www.example.org", "method": "GET",
             "path": "/docs/", "query": "page=2", "remote": "203.0.113.7:1"}, "http_response": {"size": 512, "status":
             200, "took": 12345678}, "msg": "completed handling request", "time": "2026-11-21T10:00:00Z"},
            {"host": "www.example.org", "user_agent": "curl/8.5.0", "duration_us": 12_346},
        ),
        (  # Rails' semantic logger, whose host is the machine
            {"host": "web1", "timestamp": "2026-11-21T10:00:00Z", "pid": 1, "duration_ms": 12.3, "duration": "12.3ms",
             "payload": {"action": "index", "method": "GET", "path": "/docs/?page=2", "status": 200}},
            {"client_ip": None, "bytes": 0, "host": None, "duration_us": 12_300},
        ),
        (  # Tomcat, whose host is the client
            {"host": "203.0.113.7", "logicalUserName": "-", "user": "-", "time": "[21/Nov/2026:10:00:00 +0000]",
             "request": "GET /docs/?page=2 HTTP/1.1", "statusCode": "200", "size": "512", "requestHeaders":
             {"Referer": "-", "User-Agent": "curl/8.5.0"}},
            {"host": None, "protocol": "HTTP/1.1", "user_agent": "curl/8.5.0"},
        ),
        (  # logback's access log, by logstash-logback-encoder
            {"@timestamp": "2026-11-21T10:00:00Z", "message": "203.0.113.7 - - [2026-11-21T10:00:00Z]", "method": "GET",
             "protocol": "HTTP/1.1", "status_code": 200, "requested_url": "GET /docs/?page=2 HTTP/1.1",
             "requested_uri": "/docs/", "remote_host": "203.0.113.7", "content_length": 512, "elapsed_time": 12},
            {"protocol": "HTTP/1.1", "duration_us": 12_000},
        ),
        (  # Dropwizard
            {"timestamp": 1795255200000, "method": "GET", "status": 200, "requestTime": 3, "contentLength": 512,
             "uri": "/docs/?page=2", "remoteAddress": "203.0.113.7"},
            {"duration_us": 3_000},
        ),
        (  # SAP's libraries for Cloud Foundry
            {"type": "request", "written_at": "2026-11-21T10:00:00Z", "request": "/docs/?page=2", "method": "GET",
             "remote_ip": "203.0.113.7", "response_time_ms": 12, "response_status": 200, "response_size_b": "512"},
            {"duration_us": 12_000},
        ),
        (  # Datadog's attributes
            {"date": "2026-11-21T10:00:00Z", "http": {"url": "/docs/?page=2", "status_code": "200", "method": "GET"},
             "network": {"client": {"ip": "203.0.113.7"}, "bytes_written": "512"}, "duration": 12345678},
            {"duration_us": 12_346},
        ),
        (  # OpenTelemetry's attributes
            {"timestamp": "2026-11-21T10:00:00Z", "http.request.method": "GET", "url.full":
             "https://www.example.org/docs/?page=2", "url.path": "/docs/", "client.address": "203.0.113.7",
             "http.response.status_code": 200, "http.response.body.size": 512, "http.server.request.duration": 0.0125},
            {"host": "www.example.org", "duration_us": 12_500},
        ),
        (  # Google's App Engine
            {"protoPayload": {"ip": "203.0.113.7", "latency": "0.012s", "method": "GET", "resource": "/docs/?page=2",
             "httpVersion": "HTTP/1.1", "status": 200, "responseSize": "512", "userAgent": "curl/8.5.0", "host":
             "www.example.org"}, "resource": {"type": "gae_app"}, "timestamp": "2026-11-21T10:00:00Z"},
            {"host": "www.example.org", "user_agent": "curl/8.5.0", "duration_us": 12_000},
        ),
        (  # Azure's API Management
            {"time": "2026-11-21T10:00:00Z", "category": "GatewayLogs", "callerIpAddress": "203.0.113.7", "durationMs":
             12, "properties": {"method": "GET", "url": "https://www.example.org/docs/?page=2", "responseCode": 200,
             "responseSize": 512}},
            {"host": "www.example.org", "duration_us": 12_000},
        ),
        (  # Oracle's load balancers
            {"data": {"clientAddr": "203.0.113.7:1", "host": "www.example.org", "lbStatusCode": "200", "request":
             "GET http://www.example.org:80/docs/?page=2 HTTP/1.1", "sentBytes": "512", "timestamp":
             "2026-11-21T10:00:00+00:00"}, "time": "2026-11-21T10:00:01Z"},
            {"host": "www.example.org", "protocol": "HTTP/1.1"},
        ),
        (  # Cloudflare's Workers
            {"event": {"request": {"url": "https://www.example.org/docs/?page=2", "method": "GET", "headers":
             {"cf-connecting-ip": "203.0.113.7"}}, "response": {"status": 200}}, "eventTimestamp": 1795255200000},
            {"bytes": 0, "host": "www.example.org"},
        ),
        (  # Fastly's examples, where the request is the method
            {"timestamp": "2026-11-21T10:00:00Z", "client_ip": "203.0.113.7", "request": "GET", "url":
             "/docs/?page=2", "status": "200", "resp_body_size": "512", "time_elapsed": 1234},
            {"duration_us": 1_234},
        ),
        (  # Elixir's logger_json
            {"time": "2026-11-21T10:00:00Z", "request": {"client": {"ip": "203.0.113.7", "user_agent": "curl/8.5.0"},
             "connection": {"method": "GET", "path": "/docs/?page=2", "protocol": "HTTP/1.1", "status": 200}}},
            {"bytes": 0, "protocol": "HTTP/1.1", "user_agent": "curl/8.5.0"},
        ),
        (  # Grafana
            {"logger": "context", "method": "GET", "path": "/docs/?page=2", "status": 200, "remote_addr":
             "203.0.113.7", "time_ms": 1, "duration": "1.2ms", "size": 512, "t": "2026-11-21T10:00:00Z"},
            {"duration_us": 1_200},
        ),
        (  # Sucuri, whose time is in three fields
            {"request_date": "21/Nov/2026", "request_time": "11:00:00", "request_timezone": "+0100", "remote_addr":
             "203.0.113.7", "request_method": "GET", "resource_path": "/docs/?page=2", "http_status": 200,
             "http_bytes_sent": 512},
            {"duration_us": None},
        ),
    ],
)  # fmt: skip
def test_json_with_the_names_of_other_systems(keys: dict[str, Any], differs: dict[str, Any]) -> None:
    usual = {"client_ip": "203.0.113.7", "event_time": TIME, "method": "GET", "path": "/docs/", "query": "page=2",
             "status": 200, "bytes": 512}  # fmt: skip
    [row] = read([json.dumps(keys)])
    assert row is not None
    assert {name: row[name] for name in usual | differs} == usual | differs


@pytest.mark.parametrize(
    "line, message",
    [
        (  # DataDog/integrations-core (BSD-3-Clause, `nginx/assets/logs`), whose documentation recommends it
            '127.0.0.1 - - [19/Feb/2015:15:50:36 -0500] "GET /big.pdf HTTP/1.1" 206 33973115 0.202 "-" "Mozilla/5.0"',
            (33_973_115, 202_000, None, "Mozilla/5.0"),
        ),
        (  # google/mtail (Apache-2.0, `internal/mtail/testdata`)
            '192.168.74.9 - - [04/Apr/2018:10:28:24 +0000] "GET /prefix HTTP/1.1" 304 - 3551 "-" "Mozilla/5.0"',
            (0, 3_551, None, "Mozilla/5.0"),
        ),
        (  # the duration before the size
            '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 0.012 512 "-" "Mozilla/5.0"',
            (512, 12_000, None, "Mozilla/5.0"),
        ),
    ],
)
def test_a_duration_may_be_in_front_of_the_referrer(line: str, message: tuple[Any, ...]) -> None:
    [row] = read([line])
    assert row is not None and detected_as([line]) == ["combined"]
    assert tuple(row[name] for name in ("bytes", "duration_us", "referrer", "user_agent")) == message


def test_azures_app_service() -> None:
    # opentelemetry-collector-contrib (Apache-2.0, `azureencodingextension`).
    line = (
        r'{"category":"AppServiceHTTPLogs","time":"2022-05-08T20:14:15.0000000","properties":{"UserAgent":'
        r'"Mozilla\/5.0","ScStatus":"200","CsUsername":"-","CsHost":"test-site.azurewebsites.net","CsMethod":"GET",'
        r'"CsBytes":"1635","CsUriQuery":"_=1652036313179","CIp":"123.45.67.89","SPort":"80","Referer":"-","CsUriStem":'
        r'"\/api\/site\/wwwroot\/","TimeTaken":19619,"ScBytes":"494"}}'
    )
    [row] = read([line])
    assert row is not None and detected_as([line]) == ["azure_json"]
    names = "client_ip", "host", "path", "query", "status", "bytes", "user_agent", "referrer", "duration_us"
    assert [row[name] for name in names] == [
        "123.45.67.89", "test-site.azurewebsites.net", "/api/site/wwwroot/", "_=1652036313179", 200, 494,
        "Mozilla/5.0", None, 19_619_000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        nginx()[:-1], nginx() + "}", nginx() + nginx(), nginx() + " " + nginx(), nginx().replace(":", "", 1),
        nginx().replace('"status"', '"other"'), nginx(time_iso8601=None), nginx(request=None),
        nginx(request=None, request_method="GET"), nginx(status=True), nginx(status={"a": 1}),
        nginx(status=[200]),
        nginx()[:-1] + ', "x": ' + "[" * 20_000 + "}", nginx().replace("{", "{'a': 1, "),
        '{"x": ' * 10_000 + nginx() + "}" * 10_000,
    ],
)  # fmt: skip
def test_objects_that_are_no_requests(line: str) -> None:
    assert read([line]) == [None]
    lines = [nginx()] * 200
    lines[100] = line
    rows = read(lines)
    assert rows[100] is None and None not in [*rows[:100], *rows[101:]]


@pytest.mark.parametrize(
    "line",
    [
        nginx(),
        nginx(http_user_agent=r"\u0041"),  # as anybody may send it
        nginx()[:-1] + r', "\u0073tatus": 404}',
        nginx().replace('"status"', '"other"'),
        nginx()[:-2] + "}",
        '{"ts": "2026-11-21T10:00:00Z", "level": "info", "order": 12}',
    ],
)
def test_only_names_that_lines_have_are_looked_for(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are two thousand names: a search for all of them costs a hundred times as much as the rest."""
    looked_for = []
    blocks = objects._blocks

    def counted(text: pa.Array, paths: Sequence[str], **options: Any) -> Iterable[objects.Objects]:
        looked_for.append(len(paths))
        return blocks(text, paths, **options)

    monkeypatch.setattr(objects, "_blocks", counted)
    requests.validation(Knowledge(b"k" * 32)).make(
        arrays([nginx()] * 200 + [line], None, None)
        | {
            "chunk": pa.nulls(201, pa.string()),
            "kafka_timestamp": pa.array([TIME] * 201, pa.timestamp("us", "UTC")),
        }
    )
    assert looked_for and max(looked_for) < 30


PLAIN_COMBINED = '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8.5.0"'


@pytest.mark.parametrize(
    "trailing, duration, host",
    [
        ("0.012", 12_000, None), ('"0.012"', 12_000, None), ("1.0000005", 1_000_001, None),
        ("rt=0.012 uct=0.001 urt=0.010", 12_000, None), ('urt="0.010" rt="0.012"', 12_000, None),
        ("0.012 0.010 .", 12_000, None), ("- 0.012", 12_000, None), ("-0.012", None, None), ("0.0.1", None, None),
        ("1042", 1_042, None), ("1042 -", 1_042, None), ('"-" 1042', 1_042, None), ("512 1042", None, None),
        ('"1042"', None, None), ("99999999999999999999", None, None), ("1042 0.012", 12_000, None),
        ("WWW.Example.ORG:443", None, "www.example.org"), ('"www.example.org"', None, "www.example.org"),
        ("0.012 www.example.org", 12_000, "www.example.org"), ('host="a.example" 10.0.0.1:80', None, "a.example"),
        ("- 12.345 ms", 12_345, None), ("15 ms", 15_000, None), ("15ms", 15_000, None), ("8080 21 ms", 21_000, None),
        ("1.5s", 1_500_000, None), ("15 us", 15, None), ("rt=12ms", 12_000, None), ("0.004 12ms", 4_000, None),
        ('"s" "-" 2083', None, None), ("- ms", None, None), ("1042 msg", 1_042, None),
        ("1795255200", None, None), ("1795255199123", None, None),
        ('"198.51.100.7, 10.0.0.1"', None, None), ("10.0.0.1:8080 HIT", None, None), ("../x a/b.c", None, None),
    ],
)  # fmt: skip
def test_a_duration_and_a_host_are_read_behind_the_last_field(
    trailing: str, duration: int | None, host: str | None
) -> None:
    [row, plain, behind] = read(
        [f"{PLAIN_COMBINED} {trailing}", PLAIN_COMBINED, f"a.example:80 {PLAIN_COMBINED} {trailing}"]
    )
    assert row == (plain or {}) | {"duration_us": duration, "host": host}
    assert behind == (plain or {}) | {"duration_us": duration, "host": "a.example"}
    assert detected_as([f"{PLAIN_COMBINED} {trailing}", f"a.example:80 {PLAIN_COMBINED} {trailing}"]) == [
        "combined", "vhost_combined",
    ]  # fmt: skip


def test_several_blanks_behind_the_time_make_no_difference() -> None:
    for end in ('"GET / HTTP/1.1" 200 512 "-" "curl/8.5.0"', '"GET / HTTP/1.1" 200 512'):
        head = "203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "
        assert read([f"{head}  {end}"]) == read([head + end]) != [None]
        assert read([f"{head}  {end} {head}  {end}"]) == [None], "two lines in one are none"


@pytest.mark.parametrize(
    "request_, path, host",
    [
        ('"GET /a HTTP/2.0" "WWW.example.org:443"', "/a", "www.example.org"),
        ('"GET /a HTTP/2.0" "www.example.org" "10.0.0.4:8080"', "/a", "www.example.org"),
        ('"GET /a" HTTP/1.1" "www.example.org"', '/a"', "www.example.org"),
        ('"GET /a HTTP/2.0" "-"', "/a", None),
        ('"GET /a HTTP/2.0" "a b"', "/a", None),
        ('"GET /a HTTP/2.0" ""', "/a", None),
        ('"GET /a HTTP/2.0" www.example.org', "/a", "www.example.org"),
        ('"www.example.org" "GET /a HTTP/2.0"', "/a", "www.example.org"),
    ],
)
def test_a_host_may_be_beside_the_request(request_: str, path: str, host: str | None) -> None:
    for end in ("", ' "https://example.org/" "curl/8.5.0"'):
        [row] = read([f"203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] {request_} 200 512{end}"])
        assert row is not None
        assert (row["path"], row["host"], row["status"], row["bytes"]) == (path, host, 200, 512)


@pytest.mark.parametrize(
    "text, digits, expected",
    [
        ("0.012", 6, 12_000), ("1", 6, 1_000_000), ("0.0000005", 6, 1), ("0.0000004999", 6, 0), ("12.5", 3, 12_500),
        ("7", 0, 7), ("7.5", 0, 8), ("1500", -3, 2), ("1499.9", -3, 1), ("499", -3, 0), ("0", -3, 0),
        ("-1", 6, None), ("-", 6, None), ("", 6, None), (".5", 6, None), ("1e3", 6, None), ("9" * 12, 6, None),
        ("9" * 11, 6, 99_999_999_999_000_000),
    ],
)  # fmt: skip
def test_durations_are_rounded_half_up(text: str, digits: int, expected: int | None) -> None:
    assert microseconds(pa.array([text, None]), digits).to_pylist() == [expected, None]


HEADER = "date time c-ip cs-method cs-uri-stem sc-status cs(User-Agent)"


@pytest.mark.parametrize(
    "line, header, differs",
    [
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 curl/8.5.0", HEADER, {}),
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 curl/8.5.0", HEADER.upper(), {}),
        ("2026-11-21\t10:00:00\t203.0.113.7\tGET\t/docs/\t200\tcurl/8.5.0", HEADER, {}),
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 curl/8.5.0", HEADER.replace(" ", "  ") + " ", {}),
        ("2026-11-21\t10:00:00\t203.0.113.7\tGET\t/docs/\t200\tcurl 8", HEADER, {"user_agent": "curl 8"}),
        ("2026-11-21 10:00:00\t203.0.113.7 GET\t/docs/ 200 curl/8.5.0", HEADER, {}),
        ('2026-11-21\t10:00:00\t203.0.113.7\tGET\t/docs/\t200\t"curl 8"', HEADER, {"user_agent": "curl 8"}),
        ("2026-11-21 10:00:00 203.0.113.7 GET www.example.org/docs/?page=2 200 curl/8.5.0",
         HEADER.replace("-stem", ""), {"host": "www.example.org", "query": "page=2"}),
        ('2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 "curl 8"', HEADER, {"user_agent": "curl 8"}),
        ('"2026-11-21"  "10:00:00"   203.0.113.7 GET "/docs/" 200 ""', HEADER, {"user_agent": None}),
        ('2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 "a ""b""  c"', HEADER, {"user_agent": "a b  c"}),
        ("2026-11-21   10:00:00  203.0.113.7 GET /docs/ 200 curl/8.5.0", HEADER, {}),
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 a+(b)", HEADER, {"user_agent": "a (b)"}),
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 a%20(b)", HEADER, {"user_agent": "a (b)"}),
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 a%2520(b)", HEADER, {"user_agent": "a (b)"}),
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 -", HEADER, {"user_agent": None}),
        ("1795255200 203.0.113.7 GET /docs/ 200 curl/8.5.0", HEADER.replace("date time", "timestamp"), {}),
        ("10:00:00 2026-11-21 curl/8.5.0 200 /docs/ GET 203.0.113.7", " ".join(
            ["time", "date", "cs(User-Agent)", "sc-status", "cs-uri-stem", "cs-method", "c-ip"]), {}),
        # The day is in a comment of the file.
        ("10:00:00 203.0.113.7 GET /docs/ 200", "time c-ip cs-method cs-uri-stem sc-status date=2026-11-21",
         {"user_agent": None}),
        # SHOUTcast has no methods, and encodes agents.
        ("203.0.113.7 203.0.113.7 2026-11-21 10:00:00 /docs/ 200 curl%2F8.5.0 512",
         "c-ip c-dns date time cs-uri-stem c-status cs(User-Agent) sc-bytes", {"method": None, "bytes": 512}),
    ],
)  # fmt: skip
def test_a_line_of_a_w3c_log_is_read_by_its_header(line: str, header: str, differs: dict[str, Any]) -> None:
    plain = dict.fromkeys(("host", "query", "protocol", "referrer")) | {"bytes": 0}
    assert read([line], None, header) == [USUAL | plain | differs]
    assert read([line], "iis_w3c", header) == [USUAL | plain | differs]


IIS = (
    "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status"
    " sc-substatus sc-win32-status time-taken"
)


@pytest.mark.parametrize(
    "target, user, referrer, expected",
    [
        ("/a x=a b", "-", "-", ("/a", "x=a b", None, None)),
        ("/a x=a 443", "-", "-", ("/a", "x=a 443", None, None)),
        ("/a a b", "-", "-", ("/a", "a b", None, None)),
        ("/a b/c -", "-", "-", ("/a b/c", None, None, None)),
        ("/a b/c x=1 2", "-", "-", ("/a b/c", "x=1 2", None, None)),
        ("/a -", "my user", "-", ("/a", None, "my user", None)),
        ("/a -", "-", "http://a.example/b c", ("/a", None, None, "http://a.example/b c")),
    ],
)
def test_blanks_within_columns_of_iis_do_not_shift_others(
    target: str, user: str, referrer: str, expected: tuple[str | None, ...]
) -> None:
    line = (
        f"2026-11-21 10:00:00 10.0.0.5 GET {target} 443 {user} 203.0.113.7 curl/8.5.0 {referrer} 200 0 0 15"
    )
    path, query, remote_user, referred = expected
    row = {
        "path": path,
        "query": query,
        "remote_user": remote_user,
        "referrer": referred,
        "duration_us": 15_000,
    }
    assert read([line], None, IIS) == [USUAL | NO_HOST | NO_PROTOCOL | {"bytes": 0} | row]
    usual = "2026-11-21 10:00:00 10.0.0.5 GET /a x=1 443 - 203.0.113.7 curl/8.5.0 - 200 0 0 15"
    [row_beside, plain] = read([f"{usual} 203.0.113.9", usual])
    assert row_beside == plain, "columns behind the default ones are left out"


@pytest.mark.parametrize("agent", ["curl 8", "curl 8 x", "curl 203.0.113.9"])
def test_a_line_of_iis_whose_columns_are_not_clear_is_not_read(agent: str) -> None:
    line = f"2026-11-21 10:00:00 10.0.0.5 GET /a - 443 - 203.0.113.7 {agent} - 200 0 0 15"
    assert read([line, line + " 1"], None, IIS) == [None, None]


@pytest.mark.parametrize(
    "header", [None, "", "date", HEADER + " x", HEADER.replace("sc-status", "x-status"), "\ufeff", "c-ip" * 9]
)
def test_a_line_of_a_w3c_log_without_its_header_is_not_read(header: str | None) -> None:
    line = "2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 curl/8.5.0"
    for named in (None, "iis_w3c", "w3c_extended"):
        assert read([line], named, header) == [None]
        [known] = fields(arrays([line], named, header))["fields_known"].to_pylist()
        assert known == (header is not None)


@pytest.mark.parametrize(
    "line, header, message",
    [
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/ OK curl/8.5.0", HEADER, ("w3c_extended", "status")),
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/", HEADER, ("w3c_extended", "sc-status")),
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 curl x", HEADER, ("w3c_extended", "end")),
        ("2026-11-21 10:00:00 203.0.113.7 GET /docs/", HEADER.rsplit(" ", 2)[0], ("w3c_extended", "status")),
        (
            "10:00:00 203.0.113.7 GET /docs/",
            "time c-ip cs-method cs-uri-stem sc-status date=2026-11-21",
            ("w3c_extended", "sc-status"),
        ),
        (PLAIN_COMBINED.replace(" 200 512", " 20"), HEADER, ("combined", "status")),
        (docker(PLAIN_COMBINED.replace(" 200 512", " 20")), None, ("combined", "status")),
        (nginx().replace('"status"', '"other"'), None, ("nginx_json", "status")),
        (
            "2026-11-21 10:00:00 203.0.113.7 GET /docs/",
            "date time c-ip cs-method cs-uri-stem",
            ("w3c_extended", "status"),
        ),
        ("2026-11-21 10:00:00 203.0.113.7", "date time s-ip", ("w3c_extended", "target")),
        ("Hello, world", None, (None, None)),
        (
            '2026/11/21 10:00:00 [error] 31#31: *3 open() "/a" failed, client: 203.0.113.7, request: "GET /a HTTP/1.1"',
            None,
            (None, None),
        ),
    ],
)
def test_a_line_of_no_format_has_a_nearest_one_and_a_field(
    line: str, header: str | None, message: tuple[str | None, str | None]
) -> None:
    assert read([line], None, header) == [None]
    value, headers = pa.array([line.encode()] * 2), pa.array([header] * 2, pa.string())
    names, lacks = nearest(value, headers, np.array([True, False]))
    assert (names.to_pylist(), lacks.to_pylist()) == ([message[0], None], [message[1], None])


def test_the_header_may_change_from_line_to_line_and_others_need_none() -> None:
    by_header = {
        HEADER: "2026-11-21 10:00:00 203.0.113.7 GET /docs/ 200 curl/8.5.0",
        "date time cs-method cs-uri-stem c-ip sc-status": "2026-11-21 10:00:00 GET /docs/ 203.0.113.7 200",
    }
    lines, headers = [*by_header.values(), LINES[0]] * 9, [*by_header, HEADER] * 9
    result = fields(arrays(lines, None, None) | {"fields": pa.array(headers)})
    assert result["well_formed"].to_pylist() == [True] * 27
    assert result["path"].to_pylist() == ["/docs/"] * 27
    assert result["user_agent"].to_pylist() == ["curl/8.5.0", None, FIREFOX] * 9


# Lines from the tests of crowdsecurity/hub (MIT, `.tests/`), elastic/beats (Apache-2.0, `filebeat/module/`),
# fluent/fluentd (Apache-2.0, `test/plugin/`) and logstash-plugins/logstash-patterns-core (Apache-2.0, `spec/`), and
# what they say.
REAL = [
    (
        "combined",  # beats, nginx/access
        '10.0.0.2, 10.0.0.1, 85.181.35.98 - - [07/Dec/2016:11:05:07 +0100] "GET /ocelot HTTP/1.1" 200 571 "-"'
        ' "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.12; rv:49.0) Gecko/20100101 Firefox/49.0"',
        "2016-12-07T10:05:07Z 85.181.35.98 None GET /ocelot 200 571"
        " Mozilla/5.0 (Macintosh; Intel Mac OS X 10.12; rv:49.0) Gecko/20100101 Firefox/49.0",
    ),
    (
        "combined",  # beats, nginx/access
        '"10.5.102.222, 199.96.1.1, 204.246.1.1" 10.2.1.185 - - [22/Jan/2016:13:18:29 +0000]'
        ' "GET /assets/xxxx?q=100 HTTP/1.1" 200 25507 "-" "Amazon CloudFront"',
        "2016-01-22T13:18:29Z 204.246.1.1 None GET /assets/xxxx 200 25507 Amazon CloudFront",
    ),
    (
        "combined",  # beats, nginx/access
        "1.128.3.4 2a02:cf40:10ff:f00f:0000:0000:0:8000, 10.225.192.17 10.2.2.121 - - [30/Dec/2016:06:47:09 +0000]"
        ' "GET /test.html HTTP/1.1" 404 8571 "-" "Mozilla/5.0 (compatible; Facebot 1.0)"',
        "2016-12-30T06:47:09Z 2a02:cf40:10ff:f00f::8000 None GET /test.html 404 8571"
        " Mozilla/5.0 (compatible; Facebot 1.0)",
    ),
    (
        "vhost_combined",  # beats, nginx/access: a name in place of the address, which a rule rejects
        '1.128.3.4 localhost - - [29/May/2017:19:02:48 +0000] "GET /test2 HTTP/1.1" 200 612 "-" "Mozilla/5.0" "-"',
        "2017-05-29T19:02:48Z localhost 1.128.3.4 GET /test2 200 612 Mozilla/5.0",
    ),
    (
        "combined",  # fluentd, test_parser_nginx
        '127.0.0.1 192.168.0.1 - [28/Feb/2013:12:00:00 +0900] "GET /a[ ]b HTTP/1.1" 200 777 "-" "Opera/12.0"',
        "2013-02-28T03:00:00Z 127.0.0.1 None GET /a[ ]b 200 777 Opera/12.0",
    ),
    (
        "vhost_combined",  # hub, bunkerweb-bad-user-agent
        'example.com 127.0.0.1 - abc123def456 - [29/Sep/2021:14:11:34 +0200] "HEAD / HTTP/1.1" 200 0 "-"'
        ' "Mozilla/5.00 (Nikto/2.1.5) (Evasions:None) (Test:Port Check)"',
        "2021-09-29T12:11:34Z 127.0.0.1 example.com HEAD / 200 0"
        " Mozilla/5.00 (Nikto/2.1.5) (Evasions:None) (Test:Port Check)",
    ),
    (
        "fastly_json",  # hub, fastly-logs
        '2021-11-12T16:59:46.613304+00:00 1.1.1.1  {     "timestamp": "2021-11-12T16:59:45+0000",     "client_ip":'
        ' "1.2.3.4",     "geo_country": "france",     "host": "fastly.mydomain.com",     "url": "/zVnC16Tl.exe",    '
        ' "request_method": "GET",     "request_protocol": "HTTP/1.1",     "request_referer": "",    '
        ' "request_user_agent": "Mozilla/5.0 (Windows NT 10.0; Win64; x64)",     "response_state":'
        ' "MISS-CLUSTER", "response_status": 404,    '
        ' "response_body_size": 564,     "fastly_server": "cache-cdg20764-CDG"   }',
        "2021-11-12T16:59:45Z 1.2.3.4 fastly.mydomain.com GET /zVnC16Tl.exe 404 564"
        " Mozilla/5.0 (Windows NT 10.0; Win64; x64)",
    ),
    (
        "envoy",  # DataDog/integrations-core (BSD-3-Clause, `envoy/assets/logs`), of Istio 1.0
        '[2019-03-06T09:31:27.354Z] "GET /status/418 HTTP/1.1" 418 - "-" 0 135 11 10 "-" "curl/7.60.0"'
        ' "d209e46f-9ed5-9b61-bbdd-43e22662702a" "httpbin:8000" "172.30.146.73:80"'
        " outbound|8000||httpbin.default.svc.cluster.local - 172.21.13.94:8000 172.30.146.82:60290 -",
        "2019-03-06T09:31:27.354000Z 172.30.146.82 httpbin GET /status/418 418 135 curl/7.60.0",
    ),
    (
        "cloudfront",  # logstash-patterns-core, aws_spec: from before the columns of HTTP's version
        "2016-06-10\t18:41:39\tIAD53\t224281\t192.168.1.1\tGET\td27enomp470abc.cloudfront.net"
        "\t/content/sample/thing.pdf\t200\thttps://example.com/\tMozilla/5.0%2520(Windows%2520NT%25206.1)\t-\t-\tMiss"
        "\tUGskZ6dUKY7b4C6Pt7wAWVsU2KO-vTRe-mR4r9H-WQMjhNvY6w1Xcg==\thost.example.com\thttps\t883\t0.036\t-\tTLSv1.2"
        "\tECDHE-RSA-AES128-GCM-SHA256\tRefreshHit",
        "2016-06-10T18:41:39Z 192.168.1.1 host.example.com GET /content/sample/thing.pdf 200 224281"
        " Mozilla/5.0 (Windows NT 6.1)",
    ),
    (
        "zoraxy",  # hub, zoraxy-http-logs
        "2025/05/01 12:01:50 [2025-05-01 12:01:50.912318] [router:host-http] [origin:private.co.uk] [client:"
        " 192.168.1.1]"
        " [useragent: python-requests/2.32.3] GET /.git/config 404",
        "2025-05-01T12:01:50.912318Z 192.168.1.1 private.co.uk GET /.git/config 404 0 python-requests/2.32.3",
    ),
    (
        "bunny",  # its documentation
        "HIT|200|1507167062421|412|390|163.172.53.229|-|https://bunnycdn.b-cdn.net/assets/video.m4v?x=1|WA"
        "|Mozilla/5.0 (a)|322b688bd63fb63f2babe9de30a5d262|DE",
        "2017-10-05T01:31:02.421000Z 163.172.53.229 bunnycdn.b-cdn.net None /assets/video.m4v 200 412"
        " Mozilla/5.0 (a)",
    ),
    (
        "akamai_json",  # its documentation: a scheme as protocol, a path without its first slash, + for spaces
        '{"version":1,"reqTimeSec":"1573840000","bytes":"4995","cliIP":"203.0.113.7","statusCode":"206","proto":"HTTPS",'
        '"reqHost":"test.hostname.net","reqMethod":"GET","reqPath":"path1/file.ext","UA":"Mozilla%2F5.0+%28Macintosh%29"}',
        "2019-11-15T17:46:40Z 203.0.113.7 test.hostname.net GET /path1/file.ext 206 4995 Mozilla/5.0 (Macintosh)",
    ),
    (
        "traefik_clf",  # hub, traefik_clf
        '172.17.0.1 - - [08/Dec/2021:13:59:39 +0000] "GET /cgi.cgi/ HTTP/1.1" 200 352 "-" "Nikto" 240 "test@docker"'
        ' "http://172.17.0.3:80" 0ms',
        "2021-12-08T13:59:39Z 172.17.0.1 None GET /cgi.cgi/ 200 352 Nikto",
    ),
    (
        "haproxy_http",  # hub, haproxy-logs
        "117.136.40.129:14853 [14/Jan/2015:12:48:57.127] https-in~ xx_server_https/xxx_node_8002 170/0/0/3/173"
        " 200 739 - -"
        ' --NN 0/0/0/0/0 0/0 "GET /xxx/xxx HTTP/1.1"',
        "2015-01-14T12:48:57.127000Z 117.136.40.129 None GET /xxx/xxx 200 739 None",
    ),
    (
        "envoy",  # hub, envoy-logs
        '2026-01-24T01:37:00.000000000+00:00 stdout F [2026-01-24T01:37:00.000Z] "GET /api/proxy HTTP/1.1" 200 -'
        ' 0 512 30'
        ' 15 "192.168.1.100, 10.42.0.1" "Mozilla/5.0" "multi-ip-clf-v4" "proxy.example.com" "tcp://10.42.0.82:8080"',
        "2026-01-24T01:37:00Z 192.168.1.100 proxy.example.com GET /api/proxy 200 512 Mozilla/5.0",
    ),
    (
        "npmplus",  # hub, nginx_http-catch-npm
        '[10/Feb/2024:21:23:40 +0100] wings.example.com 192.168.1.101 0.002 "GET / HTTP/1.1" 401 77 935 -'
        ' Uptime-Kuma/1.23.11',
        "2024-02-10T20:23:40Z 192.168.1.101 wings.example.com GET / 401 77 Uptime-Kuma/1.23.11",
    ),
    (
        "nginx_proxy_manager",  # hub, nginx_http-catch-npm
        '[10/Feb/2024:21:25:15 +0100] - 404 200 - GET http api.example.org "/v1/health" [Client 192.168.1.104]'
        ' [Length 512]'
        ' [Gzip 1.1] "curl/7.68.0" "-"',
        "2024-02-10T20:25:15Z 192.168.1.104 api.example.org GET /v1/health 200 512 curl/7.68.0",
    ),
    (
        "cloudfront",  # hub, aws-cloudfront-logs
        "2024-03-12\t15:22:28\tCDG50-P2\t703\t1.2.3.4\tGET\td6rcaj0q1hys9.cloudfront.net\t/testseb\t400\t-"
        "\tcurl/7.81.0\t"
        "query_param=42\t-\tError\t375WZmnR4hhhnlZKNn0D_LvkWhAqvWvBsUqySq8f_GOoAPP3k8R8fw=="
        "\thub-cdn.crowdsec.net\thttps\t"
        "62\t0.113\t-\tTLSv1.3\tTLS_AES_128_GCM_SHA256\tError\tHTTP/2.0\t-\t-\t51754\t0.113\tError\t"
        "text/plain;%20charset=utf-8\t20\t-\t-",
        "2024-03-12T15:22:28Z 1.2.3.4 hub-cdn.crowdsec.net GET /testseb 400 703 curl/7.81.0",
    ),
]  # fmt: skip


@pytest.mark.parametrize("format, line, message", REAL, ids=[format for format, _, _ in REAL])
def test_a_line_of_somebody_elses_tests(format: str, line: str, message: str) -> None:
    [row] = read([line])
    assert row is not None and detected_as([line]) == [format]
    time = row["event_time"].isoformat().replace("+00:00", "Z")
    names = ("client_ip", "host", "method", "path", "status", "bytes", "user_agent")
    assert " ".join([time, *(str(row[name]) for name in names)]) == message


TOKENS = [
    '"', '\\"', "\\\\", "\\", " ", "  ", "-", "[", "]", "] ", " [", "\t", "\r", "\0", "\n", "{", "}", "},{", ",", ":",
    ": ", '":"', "null", "1e999999999999999999999", "-0", "0.10", "9" * 40, "\ufeff", "é", "\ud7ff", "MESSAGE=", "<1>",
    '{"log":"', '"}', "Nov 21 10:00:00 a b: ", " - ", "(0 s) ", "#", "true", "\\u0000", "\\ud800", "T", "Z", "+99:99",
]  # fmt: skip
SEEDS = [
    *LINES,
    *(ENVELOPES[name](line) for name in ("Docker", "RFC 5424", "CRI") for line in LINES),
    nginx(),
    *(each.examples[0] for each in DECLARED if isinstance(each, W3c)),
    PLAIN_COMBINED + ' 0.012 www.example.org "198.51.100.1, 10.0.0.1"',
]
HEADERS = [each.fields for each in DECLARED if isinstance(each, W3c)]


def damaged(chance: random.Random) -> bytes:
    line = chance.choice(SEEDS).encode()
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(line) + 1)
        match chance.randrange(5):
            case 0:
                line = line[:at] + chance.choice(TOKENS).encode() + line[at:]
            case 1:
                line = line[:at] + line[at + chance.choice((1, 1, 3, 20)) :]
            case 2:
                line = line[:at] + bytes([chance.randrange(256)]) + line[at + 1 :]
            case 3:
                other = chance.choice(SEEDS).encode()
                line = line[:at] + other[chance.randrange(len(other)) :]
            case _:
                line = line[:at] + line[at : at + chance.randrange(40)] + line[at:]
    return line


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    named=st.sampled_from([None, None, *FORMATS, "nonsense"]),
    header=st.sampled_from([None, *HEADERS]),
)
def test_damaged_lines_are_read_the_same_among_others(
    seed: int, named: str | None, header: str | None
) -> None:
    chance = random.Random(seed)
    lines = [damaged(chance) for _ in range(200)] + [
        chance.randbytes(chance.randrange(200)) for _ in range(10)
    ]
    rows = read(lines, named, header)
    order = chance.sample(range(len(lines)), len(lines))
    for start in range(0, len(order), 30):
        some = order[start : start + 30]
        for place, row in zip(some, read([lines[place] for place in some], named, header), strict=True):
            assert row == rows[place], lines[place]


@pytest.mark.parametrize("line", LINES)
def test_two_lines_in_one_are_not_read(line: str) -> None:
    assert read([f"{line}\n{line}", f"{line}\r{line}", docker(f"{line}\n{line}")]) == [None] * 3


def test_json_formats_need_paths_that_they_declare() -> None:
    for each in DECLARED:
        if isinstance(each, JsonFormat):
            assert {"client_ip", "time", "status"} <= set(each.keys)
