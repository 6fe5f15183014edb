"""Every table that is made of lines equals its recomputation, for generated traffic of all kinds and a real log."""

from __future__ import annotations

import functools
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.pipeline import odd_visits, walked
from tests.pipeline.compare import RECOUNTED, REQUESTS, assert_table
from tests.pipeline.declared_goals import CONDITIONS, GOALS
from tests.pipeline.harness import SHARED_LOG, shared_lines
from tests.pipeline.recount import Expected, recount
from tests.pipeline.without_spark import reader_of, tables_of
from tidemark.parse.reading import Reading, SiteReading
from tidemark.traffic.site import HOST
from tidemark.traffic.stream import Traffic, blocks

START = 1_780_000_200
HOSTS = {"shop": (HOST, "shop.example", "www.shop.example")}
ROBOTS = {
    "shop": "User-agent: GPTBot\nDisallow: /\n\nUser-agent: *\nDisallow: /products/\nDisallow: /docs/\n"
}
READING = Reading({site: SiteReading(hosts=hosts, robots=ROBOTS[site]) for site, hosts in HOSTS.items()})
TABLES = sorted(RECOUNTED)

Pair = tuple[str, bytes]


@functools.cache
def generated() -> tuple[dict[str, pa.Table], Expected]:
    """Two sites, of which one has durations and names its own host."""
    pairs: list[Pair] = []
    for site, timed in (("default", False), ("shop", True)):
        traffic = Traffic(
            START, rate=6, seconds=3_000, seed=5, site=site, visitors=400, request_time=timed, late=0.1
        )
        pairs += [(site, line) for block in blocks(traffic, truth=False) for line in block.lines]
    pairs += [("shop", b"no log line"), *long_walk()]
    goals = {name: goal for name, (goal, _) in GOALS.items()}
    return tables_of(pairs, READING, goals), recount(pairs, hosts=HOSTS, goals=CONDITIONS, robots=ROBOTS)


def long_walk() -> list[Pair]:
    """A visitor with more pageviews than a session keeps steps, of which some are of the same second."""
    line = '192.0.2.1 - - [28/May/2026:20:%02d:%02d +0000] "GET /%d HTTP/1.1" 200 5 "-" "Firefox/140.0" 0.001'
    return [("shop", (line % (30 + n // 60, n % 60, step)).encode()) for n in range(90) for step in (3, 1, 2)]


@functools.cache
def real() -> tuple[dict[str, pa.Table], Expected]:
    pairs = [("default", line) for line in shared_lines()]
    return tables_of(pairs), recount(pairs)


@pytest.mark.parametrize("table", TABLES)
def test_generated_traffic(table: str) -> None:
    tables, expected = generated()
    assert tables[table].num_rows > 0
    assert_table(table, reader_of(tables), expected)


@pytest.mark.skipif(not SHARED_LOG.exists(), reason="the real log file is not on this machine")
@pytest.mark.parametrize("table", TABLES)
def test_a_real_log(table: str) -> None:
    tables, expected = real()
    assert_table(table, reader_of(tables), expected)


def test_funnels_retention_and_paths(tmp_path: Path) -> None:
    items = [*walked.lines(seed=3, start=START, visitors=120), *long_walk()]
    for name, table in tables_of(items).items():
        write_deltalake(str(tmp_path / "tables" / name.replace(".", "/")), table)
    (tmp_path / "tidemark.toml").write_text(walked.SETTINGS)
    walked.assert_walks(tmp_path, recount(items))


def test_odd_referrers_and_tags() -> None:
    pairs = odd_visits.lines(6_000, seed=1, sites=("shop", "other"))
    read, expected = reader_of(tables_of(pairs, READING)), recount(pairs, hosts=HOSTS, robots=ROBOTS)
    for table in ("silver.requests", "silver.sessions"):
        assert_table(table, read, expected)
    assert len({row[REQUESTS.index("channel")] for row in expected.requests}) == 20
