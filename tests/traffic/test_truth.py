"""The truth against the lines themselves, read back by regular expressions and the libraries' own answers."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from datetime import datetime
from functools import cache
from pathlib import Path

import crawleruseragents
import duckdb
import iptocc
import pandas as pd
import pytest

from tests.traffic.generated import generate
from tidemark.traffic.site import request
from tidemark.traffic.stream import Outcome, Traffic
from tidemark.traffic.truth import Truth
from tidemark.traffic.visitors import Visitor

START = 1_779_000_000
LINE = re.compile(
    r'(?:(?P<host>\S+:\d+) )?(?P<ip>\S+) - (?P<user>.*?) \[(?P<time>[^]]+)\] "(?P<request>(?:[^"\\]|\\.)*)" '
    r'(?P<status>\d{3}) (?P<size>\d+|-)(?: "(?P<referrer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)")?'
    r"(?: \d+\.\d{3})?"
)
ASSET = re.compile(r"\.(css|js|svg|png|jpg|webp|ico|woff2)$", re.IGNORECASE)


def read_back(lines: list[bytes]) -> tuple[list[tuple[object, ...]], int]:
    """(second, ip, agent, country, bot, pageview, path) of each readable line, and how many are not."""
    rows: list[tuple[object, ...]] = []
    unread = 0
    bots = {"": False, "-": False}
    time_of = cache(lambda text: datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z"))
    country_of = cache(lambda ip: iptocc.country_code(ip) or "ZZ")
    for line in lines:
        match = LINE.fullmatch(line.decode("utf-8", "replace"))
        if match is None:
            unread += 1
            continue
        try:
            time = time_of(match["time"])
        except ValueError:
            unread += 1
            continue
        agent = match["agent"] or ""
        if agent not in bots:
            bots[agent] = bool(crawleruseragents.is_crawler(agent))
        http = re.fullmatch(r"([A-Z]+) (\S+) HTTP/[\d.]+", match["request"])
        path = http[2].split("?")[0] if http else None
        page = (
            http is not None
            and http[1] == "GET"
            and int(match["status"]) < 400
            and not ASSET.search(path or "")
        )
        country = country_of(match["ip"])
        key = "" if agent == "-" else agent
        rows.append((int(time.timestamp()), match["ip"], key, country, bots[agent], page, path))
    return rows, unread


@pytest.mark.parametrize("log_format", ["combined", "vhost_combined", "common"])
def test_windows_and_sessions_equal_a_recount_of_the_lines(log_format: str) -> None:
    traffic = Traffic(
        START, rate=10, seconds=7200, seed=5, site="shop", format=log_format, visitors=400, late=0.1
    )
    truth, lines = Truth(), []
    for line in generate(traffic):
        truth.extend("shop", [line.outcome])
        lines.append(line.value)
    rows, unread = read_back(lines)
    assert unread == 0
    assert truth.lines == truth.accepted == len(rows) == 72_000

    with duckdb.connect() as db:
        db.register("r", pd.DataFrame(rows, columns=["t", "ip", "ua", "country", "bot", "page", "path"]))
        windows = db.execute(
            """SELECT t // 300 * 300, country, count(DISTINCT (ip, ua)) FILTER (NOT bot),
                      count(*) FILTER (NOT bot AND page), count(*), count(*) FILTER (bot)
               FROM r GROUP BY ALL ORDER BY ALL"""
        ).fetchall()
        sessions = db.execute(
            """WITH views AS (SELECT *, t - lag(t) OVER visits AS gap FROM r WHERE page AND NOT bot
                              WINDOW visits AS (PARTITION BY ip, ua ORDER BY t)),
                    numbered AS (SELECT *, count(*) FILTER (gap >= 1800)
                                        OVER (PARTITION BY ip, ua ORDER BY t) AS n FROM views)
               SELECT ip, ua, country, min(t), max(t), count(*),
                      arg_min(path, (t, path)), arg_max(path, (t, path))
               FROM numbered GROUP BY ip, ua, country, n ORDER BY ip, ua, min(t)"""
        ).fetchall()
    expected = [
        (w.window_start, w.country, w.visitors, w.pageviews, w.requests, w.bot_requests)
        for w in truth.windows()
    ]
    assert expected == windows
    assert len(truth.sessions()) == len(sessions)
    for session, row in zip(truth.sessions(), sessions, strict=True):
        assert (
            session.ip,
            session.agent,
            session.country,
            session.start,
            session.end,
            session.pageviews,
        ) == row[:6]
        assert (session.entry, session.exit) == row[6:]
    if log_format != "common":
        by_visitor = defaultdict(int)
        for session in truth.sessions():
            by_visitor[session.ip, session.agent] += 1
        assert max(by_visitor.values()) > 1, "some visitor comes back after the gap"


def test_every_line_counts_once_as_accepted_or_rejected() -> None:
    truth, lines = Truth(), []
    for line in generate(Traffic(START, rate=500, seconds=100, seed=2, malformed=0.3, late=0.2, late_by=40)):
        truth.extend("default", [line.outcome])
        lines.append(line)
    assert truth.lines == len(lines) == 50_000
    good = [line for line in lines if line.outcome.reason is None]
    rows, unread = read_back([line.value for line in good])
    assert unread == 0
    assert [row[0] for row in rows] == [line.outcome.second for line in good]
    assert sum(w.requests for w in truth.windows()) == truth.accepted
    assert set(truth.rejected) == {
        "empty", "too_long", "malformed", "invalid_time", "future_time", "invalid_status",
    }  # fmt: skip


def test_a_gap_of_exactly_thirty_minutes_starts_another_session() -> None:
    someone = Visitor("203.0.113.9", "Firefox", "ZZ")

    def at(second: int, path: str) -> Outcome:
        return Outcome(second, (someone, request(path), b"-"))

    truth = Truth()
    # Arriving out of order, and twice within one second.
    truth.extend("s", [at(3599, "/c"), at(0, "/b"), at(0, "/a"), at(1800, "/c"), at(1800, "/d")])
    result = [(s.start, s.end, s.pageviews, s.entry, s.exit) for s in truth.sessions()]
    assert result == [(0, 0, 2, "/a", "/b"), (1800, 3599, 3, "/c", "/c")]


def test_truth_is_written_as_json(tmp_path: Path) -> None:
    truth = Truth()
    for line in generate(Traffic(START, rate=50, seconds=20, malformed=0.1)):
        truth.extend("default", [line.outcome])
    truth.write(tmp_path / "truth.json")
    truth.write(tmp_path / "truth.json.gz")
    plain = json.loads((tmp_path / "truth.json").read_bytes())
    assert plain == json.loads(gzip.decompress((tmp_path / "truth.json.gz").read_bytes()))
    assert plain["lines"] == 1000 == plain["accepted"] + sum(plain["rejected"].values())
    assert plain["windows"][0]["window_start"] == "2026-05-17T06:40:00Z"
