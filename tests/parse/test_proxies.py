"""The client behind proxies: by the networks that are trusted, by a number of proxies, and wherever the list stands."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from tidemark.parse.detect import fields
from tidemark.parse.networks import Trust
from tidemark.parse.reading import PLAIN, Reading, SiteReading

CLIENT, OTHER, DIRECT = "198.51.100.7", "203.0.113.80", "192.0.2.1"
LOCAL, EDGE, RELAY = "10.0.0.1", "172.68.146.54", "104.28.10.20"
REST = '- - [21/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 512 "-" "curl/8"'


def read(
    *lines: str, reading: Reading = PLAIN, header: str | None = None, site: str = "shop"
) -> list[dict[str, Any]]:
    count = len(lines)
    arrays = {
        "value": pa.array([line.encode() for line in lines]),
        "format": pa.nulls(count, pa.string()),
        "fields": pa.array([header] * count, pa.string()),
        "site": pa.array([site] * count),
    }
    rows: list[dict[str, Any]] = pa.table(fields(arrays, reading)).to_pylist()
    return rows


def client(line: str, **options: Any) -> str | None:
    [row] = read(line, **options)
    assert row["well_formed"], line
    address: str | None = row["client_ip"]
    return address


def _json(own: str, chain: str) -> str:
    return (
        f'{{"remote_addr":"{own}","time_iso8601":"2026-11-21T10:00:00Z","request":"GET / HTTP/1.1","status":200,'
        f'"http_x_forwarded_for":"{chain}"}}'
    )


def of_site(trusted: str | int | tuple[str, ...]) -> Reading:
    return Reading({"shop": SiteReading(trusted_proxies=trusted)})


@pytest.mark.parametrize(
    "own, chain, expected",
    [
        (LOCAL, CLIENT, CLIENT),
        (EDGE, CLIENT, CLIENT),
        ("::1", f"{CLIENT}, {EDGE}, {LOCAL}", CLIENT),
        # What a client sends stands in front of what the proxies append.
        (LOCAL, f"{OTHER}, {CLIENT}", CLIENT),
        (LOCAL, f"{LOCAL}, {EDGE}, {CLIENT}", CLIENT),
        (LOCAL, f"{OTHER}, {CLIENT}, {EDGE}", CLIENT),
        # A client that is no proxy is not believed, nor is one that comes through a relay inside a CDN's network.
        (DIRECT, OTHER, DIRECT),
        (DIRECT, f"{OTHER}, {LOCAL}", DIRECT),
        (RELAY, OTHER, RELAY),
        (LOCAL, f"{OTHER}, {RELAY}, {EDGE}", RELAY),
        # Clients of an own network: all are trusted.
        (LOCAL, "10.0.0.9", "10.0.0.9"),
        (LOCAL, f"10.0.0.9, 10.0.0.8, {EDGE}", "10.0.0.9"),
        # Nobody knows what is in front of a word.
        (LOCAL, "unknown", LOCAL),
        (LOCAL, f"{CLIENT}, unknown", LOCAL),
        (LOCAL, f"{CLIENT}, unknown, {EDGE}, 10.0.0.8", EDGE),
        (LOCAL, f"unknown, {CLIENT}, {EDGE}", CLIENT),
        (LOCAL, f"{CLIENT}, _hidden, {EDGE}", EDGE),
        # Empty lists and elements.
        (LOCAL, "-", LOCAL),
        (LOCAL, "", LOCAL),
        (LOCAL, ",", LOCAL),
        (LOCAL, f", {CLIENT},, {EDGE},", CLIENT),
        # Blanks, ports and brackets.
        (LOCAL, f"{CLIENT},{EDGE}", CLIENT),
        (LOCAL, f"{CLIENT}:33453, 10.0.0.8:49770", CLIENT),
        (LOCAL, f"{CLIENT}  ,   {EDGE} ", CLIENT),
        (LOCAL, "[2001:db8::1]:443, ::1", "2001:db8::1"),
        (LOCAL, "2001:db8::1, [::1]", "2001:db8::1"),
        # A list may be long; its first addresses are not read.
        (LOCAL, f"{OTHER}, " * 500 + CLIENT, CLIENT),
        (LOCAL, CLIENT + f", {EDGE}" * 30, CLIENT),
        (LOCAL, f"{CLIENT}, 10.0.0.9" + f", {EDGE}" * 30, EDGE),
        # The header Forwarded of RFC 7239.
        (LOCAL, f"for={CLIENT}", CLIENT),
        (LOCAL, f"for={OTHER};proto=http, proto=https;For={CLIENT};by={LOCAL}, for={EDGE}", CLIENT),
        (LOCAL, f"for={CLIENT}, for=unknown", LOCAL),
        (LOCAL, f"for={CLIENT}, proto=https", LOCAL),
    ],
)  # fmt: skip
def test_the_client_is_the_last_one_that_is_no_trusted_proxy(own: str, chain: str, expected: str) -> None:
    assert client(_json(own, chain)) == expected


def test_a_list_with_quotes_of_rfc_7239() -> None:
    chain = r"for=\"[2001:db8::1]:4711\";proto=https, for=\"127.0.0.1:80\""
    assert client(_json(LOCAL, chain)) == "2001:db8::1"


@pytest.mark.parametrize(
    "line, expected",
    [
        (f"{CLIENT}, {LOCAL} {REST}", CLIENT),
        (f"{CLIENT}, {EDGE}, 127.0.0.1 {REST}", CLIENT),
        (f"{CLIENT},{LOCAL} {REST}", CLIENT),
        (f"{CLIENT} , {LOCAL} {REST}", CLIENT),
        (f"{CLIENT}:33453, {LOCAL} {REST}", CLIENT),
        (f"[2001:db8::1]:443, {LOCAL} {REST}", "2001:db8::1"),
        (f"unknown, {LOCAL} {REST}", LOCAL),
        (f"{OTHER}, {DIRECT} {REST}", DIRECT),
        (f"{CLIENT}, {EDGE} {LOCAL} {REST}", CLIENT),
        (f'"{CLIENT}" {LOCAL} {REST}', CLIENT),
        (f'"{CLIENT}, {EDGE}" {LOCAL} {REST}', CLIENT),
        (f'"-" {DIRECT} {REST}', DIRECT),
        (f'"{OTHER}" {DIRECT} {REST}', DIRECT),
        (f'www.example.com "{CLIENT}, {EDGE}" {LOCAL} {REST}', CLIENT),
        # A list in front of the host, without an address of the connection.
        (f'"{CLIENT}" www.example.com {REST}', CLIENT),
        (f'"{CLIENT}, {EDGE}" www.example.com {REST}', CLIENT),
        (f'"{OTHER}, {CLIENT}, {EDGE}, {LOCAL}" www.example.com:443 {REST}', CLIENT),
        # Behind the last field.
        (f'{LOCAL} {REST} "{CLIENT}"', CLIENT),
        (f'{LOCAL} {REST} X-Forwarded-For="{CLIENT},{EDGE}"', CLIENT),
        (f'{DIRECT} {REST} X-Forwarded-For="{OTHER}"', DIRECT),
        (f'{LOCAL} {REST} X-Forwarded-For="-"', LOCAL),
        (f'{LOCAL} {REST} "unknown, {CLIENT}, {EDGE}"', CLIENT),
        (f'{LOCAL} {REST} "{CLIENT}, unknown, {EDGE}"', EDGE),
        (f'{LOCAL} {REST} "for={CLIENT};proto=https, for={EDGE}"', CLIENT),
        (f'{LOCAL} {REST} fwd="proto=https;for={CLIENT}"', CLIENT),
        (f"{LOCAL} {REST} {CLIENT}", CLIENT),
        (f"{LOCAL} {REST} {CLIENT}, {EDGE} 0.012", CLIENT),
        (f'{LOCAL} {REST} "www.example.com" "{CLIENT}" rt=0.012', CLIENT),
        (f'{LOCAL} {REST} rt=0.012 xff="{CLIENT}"', CLIENT),
        (f"{DIRECT} {REST} {OTHER}", DIRECT),
        # Addresses of servers, and what looks like one.
        (f'{LOCAL} {REST} "-" "{OTHER}"', LOCAL),
        (f'{LOCAL} {REST} {OTHER}:8080 "{OTHER}:8080"', LOCAL),
        (f'{LOCAL} {REST} "www.example.com" {OTHER}:8080', LOCAL),
        (f"{LOCAL} {REST} 10.0.0.9", LOCAL),
        (f"{LOCAL} {REST} 10:15:32", LOCAL),
        (f'{LOCAL} {REST} "a {CLIENT} b"', LOCAL),
        # In front of the address of a proxy, without a comma.
        (f"{CLIENT} {LOCAL} {REST}", CLIENT),
        (f"2001:db8::1 {LOCAL} {REST} 0.012", "2001:db8::1"),
    ],
)
def test_wherever_the_list_stands(line: str, expected: str) -> None:
    assert client(line) == expected
    [row] = read(line)
    assert row["host"] == ("www.example.com" if "www" in line else None)


def test_a_list_of_iis() -> None:
    header = "date time cs-method cs-uri-stem c-ip sc-status X-Forwarded-For"
    lines = {
        "198.51.100.29:33453,+10.0.0.1:49770": "198.51.100.29",
        r"\198.51.100.30": "198.51.100.30",
        "-": "10.0.0.68",
    }
    for chain, expected in lines.items():
        assert client(f"2025-10-01 08:00:06 GET /b 10.0.0.68 200 {chain}", header=header) == expected


@pytest.mark.parametrize(
    "trusted, own, chain, expected",
    [
        ("none", LOCAL, CLIENT, LOCAL),
        (0, LOCAL, CLIENT, LOCAL),
        (("cloudflare",), EDGE, f"{CLIENT}, {LOCAL}", LOCAL),
        (("cloudflare",), LOCAL, CLIENT, LOCAL),
        ("cloudflare", EDGE, CLIENT, CLIENT),
        (("auto", "192.0.2.0/24"), LOCAL, f"{CLIENT}, {DIRECT}", CLIENT),
        ((DIRECT,), DIRECT, CLIENT, CLIENT),
        (1, DIRECT, f"{OTHER}, {CLIENT}", CLIENT),
        (2, DIRECT, f"{CLIENT}, {OTHER}", CLIENT),
        (3, DIRECT, f"{CLIENT}, {OTHER}", CLIENT),
        (1, DIRECT, "unknown", DIRECT),
    ],
)
def test_a_site_may_name_its_proxies(
    trusted: str | int | tuple[str, ...], own: str, chain: str, expected: str
) -> None:
    line = f'{own} {REST} "{chain}"'
    assert client(line, reading=of_site(trusted)) == expected
    elsewhere = client(line, reading=of_site(trusted), site="else")
    assert elsewhere == client(line)


def test_lines_of_several_sites_are_read_with_their_settings() -> None:
    sites = {
        "a": SiteReading(trusted_proxies="none"),
        "b": SiteReading(trusted_proxies=1),
        "c": SiteReading("UTC"),
    }
    names = ["a", "b", "c", "d", "a", "d"]
    lines = [f'{LOCAL} {REST} "{OTHER}, {CLIENT}, {EDGE}"'] * 4 + [f"{LOCAL} {REST}"] * 2
    arrays = {
        "value": pa.array([line.encode() for line in lines]),
        "format": pa.nulls(6, pa.string()),
        "fields": pa.nulls(6, pa.string()),
        "site": pa.array(names),
    }
    clients = fields(arrays, Reading(sites))["client_ip"].to_pylist()
    assert clients == [LOCAL, EDGE, CLIENT, CLIENT, LOCAL, LOCAL]


@pytest.mark.parametrize("seed", range(5))
def test_many_lists_at_once_as_one_by_one(seed: int) -> None:
    """The rule, written for one list."""
    rng = random.Random(seed)
    trusted = {LOCAL, EDGE, "::1"}
    choices = [CLIENT, OTHER, DIRECT, LOCAL, EDGE, "::1", RELAY, "unknown", ""]
    owns = [rng.choice([LOCAL, EDGE, DIRECT, RELAY]) for _ in range(500)]
    chains = [[rng.choice(choices) for _ in range(rng.randint(0, 6))] for _ in owns]

    def expected(own: str, chain: list[str]) -> str:
        known = own
        for each in reversed([each for each in chain if each]):
            if known not in trusted or each == "unknown":
                break
            known = each
        return known

    rows = read(*(_json(own, ", ".join(chain)) for own, chain in zip(owns, chains, strict=True)))
    assert [row["client_ip"] for row in rows] == list(map(expected, owns, chains))
    assert Trust.of(("auto",)).trusts(pa.array(sorted(trusted))).all()


def test_an_address_in_front_of_that_of_a_proxy_is_no_host() -> None:
    hosts = {
        f"{CLIENT} {LOCAL}": (None, CLIENT),
        f"{OTHER} {DIRECT}": (OTHER, DIRECT),
        f"{OTHER}:443 {LOCAL}": (OTHER, LOCAL),
        f"10.0.0.9 {LOCAL}": ("10.0.0.9", LOCAL),
    }
    rows = read(*(f"{front} {REST}" for front in hosts))
    assert [(row["host"], row["client_ip"]) for row in rows] == list(hosts.values())
    assert [row["read_as"] for row in rows] == ["combined", *["vhost_combined"] * 3]
