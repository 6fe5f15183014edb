"""Quality reports for which sites a proxy stands for the visitors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from silver.requests import TABLE
from tests.operate.quality.rows import good, rows
from tidemark.home import Home
from tidemark.operate.quality.check import Checker
from tidemark.operate.quality.facts import take_moment
from tidemark.pipeline import TABLES
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

PRIVATE, VISITOR = "10.0.0.7", "198.51.100.%d"


def result(home: Settings, *sites: tuple[str, Mapping[str, int], timedelta]) -> dict[str, Any]:
    """The result for requests of these sites, numbers by address, read so long ago."""
    store = DeltaRsStore(lakehouse.of(home))
    for table in TABLES:
        store.ensure(table)
    now = datetime.now(UTC)
    lines = [
        good(TABLE, number, site=site, client_ip=address, ingested_at=now - ago)
        for site, counts, ago in sites
        for number, address in enumerate(address for address, count in counts.items() for _ in range(count))
    ]
    store.append_arrow(TABLE, rows(TABLE, *lines))
    results = Checker(Home.of(home, [TABLE])).all(take_moment(Home.of(home, [TABLE])))
    [of_rule] = [each for each in results if each["expectation"] == "no_proxy"]
    return of_rule


def visitors(number: int) -> dict[str, int]:
    return {VISITOR % each: 1 for each in range(number)}


@pytest.mark.parametrize(
    "counts, observed",
    [
        ({PRIVATE: 97} | visitors(3), "shop: 97% from 10.0.0.7"),
        ({PRIVATE: 100}, "shop: 100% from 10.0.0.7"),
        ({"fd00::7": 51} | visitors(49), "shop: 51% from fd00::7"),
        ({PRIVATE: 50} | visitors(50), "none"),
        # A CDN connects from many addresses.
        ({f"172.68.146.{each}": 1 for each in range(90)} | visitors(10), "shop: 90% from cloudflare"),
        # People of an intranet, a busy visitor, a relay, and a site with few requests.
        ({f"10.0.0.{each}": 1 for each in range(100)}, "none"),
        ({"203.0.113.9": 100}, "none"),
        ({"104.28.10.20": 100}, "none"),
        ({PRIVATE: 99}, "none"),
    ],
)  # fmt: skip
def test_a_proxy_that_stands_for_visitors(home: Settings, counts: dict[str, int], observed: str) -> None:
    of_rule = result(home, ("shop", counts, timedelta()))
    proxied = int(observed != "none")
    assert of_rule["observed_value"] == f"proxied {proxied}, sites {observed}"
    assert (of_rule["success"], of_rule["severity"]) == (not proxied, "warning")
    assert (
        "trusted_proxies" in of_rule["details"] and "a proxy stands for your visitors" in of_rule["details"]
    )


def test_each_site_is_looked_at_by_its_newest_requests(home: Settings) -> None:
    """Those of two hours ago, from before the setting was corrected, do not count."""
    now, before = timedelta(), timedelta(hours=2)
    proxied = {PRIVATE: 200}
    of_rule = result(
        home, ("blog", proxied, now), ("docs", {PRIVATE: 120} | visitors(80), now), ("shop", visitors(100), now),
        ("shop", proxied, before),
    )  # fmt: skip
    assert of_rule["observed_value"] == "proxied 2, sites blog: 100% from 10.0.0.7; docs: 60% from 10.0.0.7"


def test_without_requests_there_is_no_result(home: Settings) -> None:
    store = DeltaRsStore(lakehouse.of(home))
    for table in TABLES:
        store.ensure(table)
    results = Checker(Home.of(home, [TABLE])).all(take_moment(Home.of(home, [TABLE])))
    assert "no_proxy" not in {each["expectation"] for each in results}
