"""A masked line says nothing that the mode does not leave, and is read to the same row otherwise."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silver import requests
from tests.parse import test_writing as writing
from tests.parse.test_each_format import ENVELOPES
from tests.privacy.lines import (
    ANONYMOUS,
    CHANGED,
    CHANGED_BY_ANONYMOUS,
    EXACT,
    KEY,
    MASKED,
    as_bronze,
    bronze,
    masking,
    validated,
    without,
)
from tidemark.parse.columns import Knowledge
from tidemark.parse.custom import own_format
from tidemark.parse.detect import DECLARED
from tidemark.parse.format import Format
from tidemark.parse.reading import Reading
from tidemark.privacy.door import Door
from tidemark.settings import Settings
from tidemark.settings.formats import FormatSettings
from tidemark.settings.privacy import Privacy, SitePrivacy

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
LINE = (
    '198.51.100.77 - {user} [21/Nov/2026:10:00:00 +0000] "GET {target} HTTP/1.1" 200 5 "{referrer}" "'
    + AGENT
    + '"'
)


def line(user: str = "-", target: str = "/", referrer: str = "-") -> bytes:
    return LINE.format(user=user, target=target, referrer=referrer).encode()


def masked(value: bytes, home: Path, mode: SitePrivacy = MASKED) -> str:
    [row] = validated(bronze([value]), home, mode)
    assert isinstance(row["value"], bytes)
    return row["value"].decode()


def test_a_masked_line_has_the_network_of_its_address(tmp_path: Path) -> None:
    assert masked(line("alice"), tmp_path) == line().decode().replace("198.51.100.77", "198.51.100.0")
    shown = masked(line("alice"), tmp_path, ANONYMOUS)
    assert shown == '- - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"'


@pytest.mark.parametrize("mode", (MASKED, ANONYMOUS), ids=lambda mode: mode.mode)
def test_a_bot_is_verified_by_its_whole_address(mode: SitePrivacy, tmp_path: Path) -> None:
    """Its operator publishes single addresses, which the masked line no longer has."""
    bot = line().replace(AGENT.encode(), b"DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)")
    first = validated(bronze([bot.replace(b"198.51.100.77", b"4.144.148.23"), bot]), tmp_path, mode)
    for rows in (first, validated(as_bronze(first), tmp_path, mode)):
        assert [(row["bot_kind"], row["bot_verified"], row["network"]) for row in rows] == [
            ("search-engine", "verified", "crawler"), ("forged", "forged", None),
        ]  # fmt: skip


@pytest.mark.parametrize(
    "target, kept",
    [
        ("/a?token=s3cret&page=2", "/a?token=removed&page=2"),
        ("/a?page=2&TOKEN=s3cret;x=1", "/a?page=2&TOKEN=removed;x=1"),
        ("/a?next=%2Fb%3Ftoken%3Ds3cret%26page%3D2", "/a?next=%2Fb%3Ftoken%3Dremoved%26page%3D2"),
        ("/a;session=s3cret", "/a;session=removed"),
        ("/users/bob.smith@example.org/edit", "/users/removed/edit"),
        ("/a?q=bob%2Bnews%40example.org&x=1", "/a?q=removed&x=1"),
        ("/a?u=https://bob:s3cret@example.org/x", "/a?u=https://example.org/x"),
        ("/whois/203.0.113.9", "/whois/203.0.113.0"),
        ("/whois/2001:db8:1:2::9", "/whois/2001:db8:1::"),
        ("/whois?ip=2001%3Adb8%3A1%3A2%3A%3A9", "/whois?ip=2001:db8:1::"),
        ("/tokens?tokens=7", "/tokens?tokens=7"),
        ("/at/10:20:30?x=a:b", "/at/10:20:30?x=a:b"),
    ],
)  # fmt: skip
def test_targets_and_referrers(target: str, kept: str, tmp_path: Path) -> None:
    [row] = validated(
        bronze([line(target=target, referrer=f"https://example.net{target}")]), tmp_path, MASKED
    )
    query = f"?{row['query']}" if row["query"] else ""
    assert f"{row['path']}{query}" == kept
    assert row["referrer"] == f"https://example.net{kept}"
    assert "s3cret" not in str(row["value"]) and "bob" not in str(row["value"])


@pytest.mark.parametrize("mode", (MASKED, ANONYMOUS), ids=lambda mode: mode.mode)
def test_the_examples_of_all_formats_are_read_as_before(mode: SitePrivacy, tmp_path: Path) -> None:
    examples = [(format, each.encode()) for format in DECLARED for each in format.examples]
    lines = bronze(
        [each for _, each in examples],
        format=[format.name for format, _ in examples],
        fields=[format.column_names or None for format, _ in examples],
    )
    exact, first = validated(lines, tmp_path), validated(lines, tmp_path, mode)
    again = validated(as_bronze(first), tmp_path, mode)
    changed = CHANGED if mode is MASKED else CHANGED_BY_ANONYMOUS
    for (format, _), before, row, later in zip(examples, exact, first, again, strict=True):
        assert without(row, changed) == without(before, changed), format.name
        assert without(later, {"ingested_at"}) == without(row, {"ingested_at"}), format.name
        assert row["remote_user"] is None
        assert before["client_ip"] is None or str(before["client_ip"]) not in str(row["value"])


@pytest.mark.parametrize("mode", (MASKED, ANONYMOUS), ids=lambda mode: mode.mode)
def test_lines_in_envelopes_are_read_as_before(mode: SitePrivacy, tmp_path: Path) -> None:
    plain = [
        line("alice").decode(),
        '{"time":"2026-11-21T10:00:00Z","ip":"198.51.100.77","uri":"/","status":200}',
    ]
    lines = bronze([put(each).encode() for put in ENVELOPES.values() for each in plain])
    exact, first = validated(lines, tmp_path), validated(lines, tmp_path, mode)
    again = validated(as_bronze(first), tmp_path, mode)
    changed = CHANGED if mode is MASKED else CHANGED_BY_ANONYMOUS
    for before, row, later in zip(exact, first, again, strict=True):
        assert before["client_ip"] == "198.51.100.77"
        assert without(row, changed) == without(before, changed)
        assert without(later, {"ingested_at"}) == without(row, {"ingested_at"})
        assert "198.51.100.77" not in str(row["value"]) and "alice" not in str(row["value"])


@pytest.mark.parametrize("format", writing.FORMATS, ids=lambda format: format.name)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_lines_of_every_format(format: Format, data: st.DataObject) -> None:
    drawn = data.draw(writing.rows(format))
    secrets = st.from_regex("[a-z]{9}", fullmatch=True)
    for row in drawn:
        secret = data.draw(secrets)
        row["client_ip"] = data.draw(st.sampled_from(("198.51.100.77", "2001:db8:1:2::9")))
        row["remote_user"] = f"user{secret}"
        row["path"] = f"/p/{secret}@example.org"
        row["query"] = f"a=1&token={secret}&b={row['client_ip']}"
        row["referrer"] = f"https://u{secret}:p{secret}@example.net/?email={secret}"
        row["secret"] = secret
    values = format.write(writing.columns_of(drawn)).to_pylist()
    lines = bronze(
        [each.encode() for each in values],
        format=[format.name] * len(values),
        fields=[format.column_names or None] * len(values),
    )
    with tempfile.TemporaryDirectory() as home:
        for mode in (MASKED, ANONYMOUS):
            exact = validated(lines, Path(home), reading=writing.READING)
            result = validated(lines, Path(home), mode, writing.READING)
            again = validated(as_bronze(result), Path(home), mode, writing.READING)
            for row, before, after, later in zip(drawn, exact, result, again, strict=True):
                kept = f"{after['value']!r}{without(after, {'privacy'})}"
                assert row["secret"] not in kept and str(row["client_ip"]) not in kept
                same = {"event_time", "status", "method", "bytes", "country", "browser", "bot", "read_as"}
                assert {name: after[name] for name in same} == {name: before[name] for name in same}
                assert mode is ANONYMOUS or after["visitor_id"] == before["visitor_id"]
                assert without(later, {"ingested_at"}) == without(after, {"ingested_at"})


UNREAD = (
    'no format 198.51.100.77 and [2001:db8:1:2::9]:443 for bob@example.org "token":"s3cret" key=s3cret'
    ' password: s3cret https://u:s3cret@example.net/?a=1&sig=s3cret "Some Agent/1.0"'
)


def test_a_line_that_cannot_be_read_has_no_addresses_and_parameters(tmp_path: Path) -> None:
    [row] = validated(bronze([UNREAD.encode()]), tmp_path, MASKED)
    assert row["reasons"] == ["malformed"]
    assert row["value"] == (
        b'no format 198.51.100.0 and [2001:db8:1::]:443 for removed "token":"removed" key=removed'
        b' password: removed https://example.net/?a=1&sig=removed "Some Agent/1.0"'
    )


def test_of_an_anonymous_line_that_cannot_be_read_only_the_shape_is_kept(tmp_path: Path) -> None:
    assert masked('no format 198.51.100.77 "Agent é/1"'.encode(), tmp_path, ANONYMOUS) == (
        'xx xxxxxx 000.00.000.00 "xxxxx x/0"'
    )


def test_of_an_overlong_line_only_the_shape_is_kept(tmp_path: Path) -> None:
    [row] = validated(bronze([b"ab1@" * 20_000]), tmp_path, MASKED)
    assert row["reasons"] == ["too_long"] and row["value"] == b"xx0@" * 20_000


@pytest.mark.parametrize("mode", (MASKED, ANONYMOUS), ids=lambda mode: mode.mode)
def test_what_stands_in_place_of_a_time_is_not_kept(mode: SitePrivacy, tmp_path: Path) -> None:
    value = line().replace(b"21/Nov/2026:10:00:00 +0000", b"198.51.100.77 s3cret")
    [row] = validated(bronze([value]), tmp_path, mode)
    assert row["accepted"] is False
    assert b"198.51.100.77" not in row["value"] and b"s3cret" not in row["value"]  # type: ignore[operator]


def test_a_second_masking_changes_nothing(tmp_path: Path) -> None:
    first = validated(bronze([UNREAD.encode(), line("alice")]), tmp_path, MASKED)
    again = validated(bronze([row["value"] for row in first]), tmp_path, MASKED)  # type: ignore[misc]
    assert [row["value"] for row in again] == [row["value"] for row in first]


def test_facts_without_the_key_are_not_believed(tmp_path: Path) -> None:
    [row] = validated(bronze([line()]), tmp_path, MASKED)
    forged = str(row["privacy"]).replace("country=", "country=DE\tx=")
    [result] = validated(bronze([line()], privacy=[forged]), tmp_path, MASKED)
    assert (result["country"], result["privacy"]) == (row["country"], row["privacy"])


def test_facts_of_another_line_do_not_keep_an_address(tmp_path: Path) -> None:
    """Who can write to the topic can repeat facts of a line that is masked, but not with a line that is not."""
    [row] = validated(bronze([line()]), tmp_path, MASKED)
    [result] = validated(bronze([line("alice")], privacy=[str(row["privacy"])]), tmp_path, MASKED)
    assert result["value"] == row["value"]


def test_facts_are_those_of_a_site(tmp_path: Path) -> None:
    [row] = validated(bronze([line()]), tmp_path, MASKED)
    [result] = validated(bronze([row["value"]], privacy=[str(row["privacy"])], site="blog"), tmp_path, MASKED)  # type: ignore[list-item]
    assert result["visitor_id"] != row["visitor_id"]


def test_masked_lines_become_anonymous_and_never_exact_again(tmp_path: Path) -> None:
    first = validated(bronze([line(), line(target="/b")]), tmp_path, MASKED)
    stricter = validated(as_bronze(first), tmp_path, ANONYMOUS)
    assert {str(row["value"])[:6] for row in stricter} == {"b'- - "}
    assert [row["client_ip"] for row in stricter] == [None, None]
    assert stricter[0]["visitor_id"] == stricter[1]["visitor_id"] != first[0]["visitor_id"]
    back = validated(as_bronze(stricter), tmp_path)
    assert without(back[0], {"ingested_at"}) == without(stricter[0], {"ingested_at"})


@pytest.mark.parametrize("header", ('"http_sec_gpc":"1"', '"http_dnt":"1"', '"headers":{"Dnt":["1"]}'))
def test_requests_that_ask_for_privacy(header: str, tmp_path: Path) -> None:
    value = (
        '{"time_iso8601":"2026-11-21T10:00:00+00:00","remote_addr":"198.51.100.77","request":"GET / HTTP/1.1",'
        f'"status":"200","http_user_agent":"{AGENT}",{header}}}'
    ).encode()
    for mode, kept in ((SitePrivacy(), True), (SitePrivacy(respect_gpc=True), False)):
        [row] = validated(bronze([value]), tmp_path, mode)
        assert (b"198.51.100.77" in row["value"], row["user_agent"] is not None) == (kept, kept)  # type: ignore[operator]
        [other] = validated(bronze([value.replace(b'"1"', b'"0"')]), tmp_path, mode)
        assert other["client_ip"] == "198.51.100.77"


OWN = {
    "by_nginx": FormatSettings(nginx='$remote_addr [$time_local] "$request" $status $http_sec_gpc'),
    "by_nginx_json": FormatSettings(
        nginx='{"t":"$time_iso8601","ip":"$remote_addr","r":"$request","s":"$status","d":"$http_dnt"}'
    ),
    "by_apache": FormatSettings(apache='%h %t "%r" %>s "%{DNT}i"'),
}


@pytest.mark.parametrize(
    "name, value",
    [
        ("by_nginx", '198.51.100.77 [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 {}'),
        (
            "by_nginx_json",
            '{{"t":"2026-11-21T10:00:00Z","ip":"198.51.100.77","r":"GET / HTTP/1.1","s":"200","d":"{}"}}',
        ),
        ("by_apache", '198.51.100.77 [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 "{}"'),
        ("w3c_extended", "2026-11-21 10:00:00 198.51.100.77 GET / 200 {}"),
    ],
)
def test_own_formats_and_w3c_logs_may_have_the_headers(name: str, value: str, tmp_path: Path) -> None:
    reading = Reading(formats=tuple(own_format(*each) for each in OWN.items()))
    columns = "date time c-ip cs-method cs-uri-stem sc-status"
    headers = [f"{columns} cs(Sec-GPC)", f"{columns} cs_dnt"] if name == "w3c_extended" else [None]
    for fields in headers:
        for opted_out, client in (("1", None), ("-", "198.51.100.77"), ("0", "198.51.100.77")):
            lines = bronze([value.format(opted_out).encode()], format=[name], fields=[fields])
            [row] = validated(lines, tmp_path, SitePrivacy(respect_gpc=True), reading)
            assert (row["well_formed"], row["client_ip"]) == (True, client)


def test_keys_in_objects_become_headers_at_the_door(tmp_path: Path) -> None:
    door = Door.of(replace(Settings.of(home=tmp_path), privacy=Privacy(MASKED)))
    assert door is not None
    keys = {"tidemark_site": 7, "tidemark_id": "a-1", "remote_addr": "198.51.100.77"}
    time = {"time": "2026-11-21T10:00:00Z", "request": "GET / HTTP/1.1", "status": "200"}
    objects = [json.dumps(keys | time).encode(), json.dumps(time).encode()]
    [(value, headers), (_, others)] = door.records(objects, {})
    result = dict(headers)
    assert (result["site"], result["id"]) == ("7", "a-1")
    assert b"198.51.100.77" not in value and b"198.51.100.0" in value
    assert not {"site", "id"} & dict(others).keys()


def test_addresses_agents_and_users_of_objects_within_objects(tmp_path: Path) -> None:
    time = {"time": "2026-11-21T10:00:00Z", "user": "alice"}
    request = {"method": "GET", "path": "/", "ip": "198.51.100.77:41342", "user-agent": AGENT}
    value = json.dumps(time | {"request": request, "response": {"status": 200}}).encode()
    [masked] = validated(bronze([value]), tmp_path, MASKED)
    assert (masked["client_ip"], masked["user_agent"]) == ("198.51.100.0", AGENT)
    [anonymous] = validated(bronze([value]), tmp_path, ANONYMOUS)
    for row, secrets in ((masked, ("198.51.100.77", "alice")), (anonymous, ("198.51.100", "alice", AGENT))):
        assert not any(secret.encode() in row["value"] for secret in secrets)  # type: ignore[operator]


def test_names_of_parameters_are_a_setting(tmp_path: Path) -> None:
    mode = replace(MASKED, strip=("ticket",))
    [row] = validated(bronze([line(target="/a?ticket=1&token=2")]), tmp_path, mode)
    assert row["query"] == "ticket=removed&token=2"
    [row] = validated(bronze([line(target="/a?ticket=1&token=2")]), tmp_path, replace(MASKED, strip=()))
    assert row["query"] == "ticket=1&token=2"


def test_visitors_of_a_day_are_exact_and_nobody_is_known_the_next_day(tmp_path: Path) -> None:
    days = [b"21/Nov", b"21/Nov", b"22/Nov"]
    rows = validated(bronze([line().replace(b"21/Nov", day) for day in days]), tmp_path, ANONYMOUS)
    first, second, third = (row["visitor_id"] for row in rows)
    assert first == second != third
    assert datetime(2026, 11, 22, 10, tzinfo=UTC) == rows[2]["event_time"]


def test_columns_have_the_same_types_in_any_batch(tmp_path: Path) -> None:
    [row] = validated(bronze([line()]), tmp_path, MASKED)
    facts = str(row["privacy"])
    batches = [
        bronze([line()]),
        bronze([b"unreadable"]),
        bronze([line(), b"unreadable"]),
        bronze([row["value"], line()], privacy=[facts, None]),  # type: ignore[list-item]
        bronze([row["value"]], privacy=[facts]),  # type: ignore[list-item]
    ]
    for mode in (MASKED, ANONYMOUS, EXACT):
        validate = requests.validation(Knowledge(KEY), masking(tmp_path, mode))
        assert len({validate.add(batch).schema for batch in batches}) == 1
