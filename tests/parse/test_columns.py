"""Columns that are looked up by distinct value, and spread over the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.parse.test_country import mmdb
from tidemark.errors import InputError
from tidemark.parse import networks
from tidemark.parse.columns import KNOWN, Knowledge, describe
from tidemark.parse.reading import Reading, SiteReading

SHOP = Reading({"shop": SiteReading(hosts=("Shop.example", "www.pay.example"))})
GPTBOT = "Mozilla/5.0 (compatible; GPTBot/1.2)"


def described(*lines: dict[str, str | None], reading: Reading = SHOP) -> list[dict[str, Any]]:
    names = ("client_ip", "user_agent", "referrer", "path", "query", "host")
    fields = {name: pa.array([line.get(name) for line in lines], pa.string()) for name in names}
    site = pa.array([line.get("site", "shop") for line in lines])
    result = describe(Knowledge(b"k", reading=reading), site, fields)
    known = [column.split()[0] for column in KNOWN.split(", ")]
    assert list(result) == [*known, "client_ip", "user_agent", "referrer"]
    return pa.table(result).to_pylist()


def test_each_row_has_the_values_of_its_own_parts() -> None:
    rows = described(
        {"user_agent": GPTBOT, "referrer": "https://www.google.com/", "query": "page=1"},
        {"query": "utm_source=News&utm_medium=email&q=shoes"},
        {"referrer": "https://www.google.com/x", "query": "gclid=1&utm_term=a+b"},
        {},
    )
    names = (
        "bot_name",
        "source",
        "channel",
        "utm_source",
        "utm_medium",
        "utm_term",
        "click_id",
        "search_term",
    )
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("GPTBot", "google", "organic search", None, None, None, None, None),
        (None, "news", "email", "News", "email", None, None, "shoes"),
        (None, "google", "paid search", None, None, "a b", "gclid", None),
        (None, "", "direct", None, None, None, None, None),
    ]
    assert [row["referrer_host"] for row in rows] == ["google.com", None, "google.com", None]


def test_own_hosts_are_those_of_the_site_and_of_the_line() -> None:
    rows = described(
        {"referrer": "https://www.shop.example/a"},
        {"referrer": "https://pay.example/"},
        {"referrer": "https://blog.shop.example/"},
        {"referrer": "https://shop.example/", "site": "else"},
        {"referrer": "https://www.line.example/", "host": "line.example"},
        {"referrer": "https://line.example/", "host": "www.line.example", "site": "else"},
        {"referrer": "https://line.example/", "host": "other.example"},
    )
    assert [(row["source"], row["channel"]) for row in rows] == [
        ("shop.example", "internal"),
        ("pay.example", "internal"),
        ("blog.shop.example", "referral"),
        ("shop.example", "referral"),
        ("line.example", "internal"),
        ("line.example", "internal"),
        ("line.example", "referral"),
    ]


def test_an_own_host_is_the_same_in_both_spellings() -> None:
    spellings = (
        "münchen.example",
        "xn--mnchen-3ya.example",
        "m%C3%BCnchen.example",
        r"m\xC3\xBCnchen.example",
    )
    for own in spellings[:2]:
        reading = Reading({"shop": SiteReading(hosts=(own,))})
        rows = described(*({"referrer": f"https://www.{each}/a"} for each in spellings), reading=reading)
        assert [row["channel"] for row in rows] == ["internal"] * 4
    lines = [{"referrer": f"https://{a}/", "host": b} for a in spellings[:2] for b in spellings[:2]]
    assert [row["channel"] for row in described(*lines, reading=Reading())] == ["internal"] * 4
    other = described({"referrer": "https://xn--mnchn-kva.example/", "host": "münchen.example"})
    assert other[0]["channel"] == "referral"


def test_no_lines_have_no_rows() -> None:
    assert described() == []


def test_the_version_names_every_list() -> None:
    version = Knowledge(b"k").version
    lists = f"networks {networks.version()}"
    assert all(
        part in version for part in ("ua-parser ", "crawlers ", "channels ", "pages ", lists, "formats ")
    )
    assert Knowledge(b"k", reading=SHOP).version != version


SHOP_ROBOTS = Reading(
    {
        "shop": SiteReading(robots="User-agent: GPTBot\nDisallow: /\n\nUser-agent: *\nDisallow: /*?sort=\n"),
        "blog": SiteReading(),
    }
)


def test_what_the_sites_robots_txt_forbids_to_a_bot() -> None:
    other = "Mozilla/5.0 (compatible; Bytespider)"
    lines: list[dict[str, str | None]] = [
        {"user_agent": GPTBOT, "path": "/a"},
        {"user_agent": GPTBOT, "path": "/robots.txt"},
        {"user_agent": other, "path": "/a"},
        {"user_agent": other, "path": "//a", "query": "sort=up"},
        {"user_agent": other, "path": None},
        {"user_agent": "Firefox/120", "path": "/a", "query": "sort=up"},
        {"user_agent": GPTBOT, "path": "/a", "site": "blog"},
    ]
    rows = described(*lines, reading=SHOP_ROBOTS)
    assert [row["disallowed"] for row in rows] == [True, False, False, True, False, None, None]
    assert {row["disallowed"] for row in described(*lines)} == {None}


def test_a_bot_from_elsewhere_is_forged() -> None:
    rows = described(
        {"user_agent": GPTBOT, "client_ip": "20.171.206.9"},
        {"user_agent": GPTBOT, "client_ip": "3.5.140.2"},
        {"user_agent": GPTBOT},
        {"user_agent": "Firefox/120", "client_ip": "104.28.10.20"},
        {"user_agent": "Firefox/120", "client_ip": "2a02:26f7:b000:4000::1"},
        {"user_agent": "Firefox/120", "client_ip": "10.0.0.1"},
    )
    assert [(row["bot_name"], row["bot_kind"], row["bot_verified"], row["network"]) for row in rows] == [
        ("GPTBot", "ai-crawler", "verified", "crawler"),
        ("GPTBot", "forged", "forged", "hosting"),
        ("GPTBot", "ai-crawler", None, None),
        (None, None, None, "relay"),
        (None, None, None, "relay"),
        (None, None, None, None),
    ]


def test_organisation_and_city_come_from_the_databases_of_the_user(tmp_path: Path) -> None:
    asn, city = tmp_path / "asn.mmdb", tmp_path / "city.mmdb"
    system = {"autonomous_system_number": 64500, "autonomous_system_organization": "Example Ltd"}
    asn.write_bytes(
        mmdb({"203.0.113.0/24": system, "198.51.100.0/24": {"asn": "AS64501", "name": "Other"}}, 4)
    )
    place = {"city": {"names": {"en": "Oslo"}}, "subdivisions": [{"names": {"en": "Oslo County"}}]}
    city.write_bytes(mmdb({"203.0.113.0/24": place, "198.51.100.0/24": {"city": "Bergen"}}, 4))
    knowledge = Knowledge(b"k", asn_database=str(asn), city_database=str(city))
    assert knowledge.version.count("Test-Country 1700000000") == 2
    addresses = ["203.0.113.9", "198.51.100.1", "192.0.2.1", "2001:db8::1", "host.example", None]
    fields = {name: pa.nulls(6, pa.string()) for name in ("user_agent", "referrer", "query", "host")}
    result = describe(knowledge, pa.repeat("shop", 6), {**fields, "client_ip": pa.array(addresses)})
    rows = list(zip(*(result[name].to_pylist() for name in ("asn", "as_org", "city", "region")), strict=True))
    nothing = (None, None, None, None)
    assert rows == [
        (64500, "Example Ltd", "Oslo", "Oslo County"), (64501, "Other", "Bergen", None), *[nothing] * 4,
    ]  # fmt: skip


def test_a_database_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "bad.mmdb").write_bytes(b"nothing")
    for name in ("bad", "missing"):
        with pytest.raises(InputError, match="asn_database"):
            _ = Knowledge(b"k", asn_database=str(tmp_path / f"{name}.mmdb")).version
