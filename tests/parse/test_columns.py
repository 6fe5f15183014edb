"""Columns that are looked up by distinct value, and spread over the rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemark.parse import networks
from tidemark.parse.columns import KNOWN, Knowledge, describe
from tidemark.parse.reading import Reading, SiteReading

SHOP = Reading({"shop": SiteReading(hosts=("Shop.example", "www.pay.example"))})
GPTBOT = "Mozilla/5.0 (compatible; GPTBot/1.2)"


def described(*lines: dict[str, str | None], reading: Reading = SHOP) -> list[dict[str, Any]]:
    names = ("client_ip", "user_agent", "referrer", "query", "host")
    fields = {name: pa.array([line.get(name) for line in lines], pa.string()) for name in names}
    site = pa.array([line.get("site", "shop") for line in lines])
    found = describe(Knowledge(b"k", reading=reading), site, fields)
    known = [column.split()[0] for column in KNOWN.split(", ")]
    assert list(found) == [*known, "client_ip", "user_agent", "referrer"]
    return pa.table(found).to_pylist()


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
