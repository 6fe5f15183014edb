"""`tidemark report` on a generated week, against figures that are counted line by line from the contract's words."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from tests.pipeline import meaning, places
from tests.pipeline.without_spark import tables_of
from tidemark.cli.report import report_command
from tidemark.traffic.week import Week, week_blocks

WEEK = Week(1_780_003_721, lines=12_000, seed=4)
GAP, DAY = 1800, 86_400
LINE = re.compile(
    r'(\S+) - .+? \[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d+) (?:\d+|-) "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)" ([\d.]+)'
)
ASSET = re.compile(r"\.(css|js|png|jpg|svg|ico|webp|woff2)$", re.IGNORECASE)
DECLARED = """
[goals.signup]
path = "/welcome*"
[goals.files]
download = ["pdf", "zip"]
[goals.found]
search = true
[funnels.buy]
steps = ["/cart", "/checkout", "goal:signup"]
scope = "session"
[funnels.visit]
steps = ["/products/*", "/cart", "/checkout", "goal:signup"]
within = "2h"
"""
BUY = (r"/cart", r"/checkout", r"/welcome.*")
VISIT = (r"/products/.*", *BUY)


@dataclass(frozen=True)
class Hit:
    second: int
    visitor: tuple[str, str]
    path: str
    query: str
    referrer: str
    status: int
    micros: int
    bot: meaning.Bot | None
    pageview: bool


def read(line: bytes) -> Hit:
    match = LINE.fullmatch(line.decode())
    assert match is not None
    ip, time, request, status, referrer, agent, seconds = (
        text if text != "-" else "" for text in match.groups()
    )
    words = request.split(" ")
    http = len(words) == 3 and words[2].startswith("HTTP/")
    path, _, query = (words[1] if http else "").partition("?")
    bot = meaning.bot_of(agent)
    if bot and places.verified(ip, bot.name) == "forged":
        bot = bot._replace(kind="forged")
    view = http and words[0] == "GET" and not bot and not ASSET.search(path) and int(status) < 400
    at = int(datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z").timestamp())
    return Hit(
        at, (ip, agent), path, query, referrer, int(status), round(float(seconds) * 1_000_000), bot, view
    )


class Lines:
    """What the lines say: hits, those of people, pageviews by visitor in order, sessions."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self.hits = [read(line) for line in lines]
        self.people = [hit for hit in self.hits if not hit.bot]
        self.views: defaultdict[tuple[str, str], list[Hit]] = defaultdict(list)
        for hit in sorted(self.people, key=lambda hit: (hit.second, hit.path, hit.query, hit.referrer)):
            if hit.pageview:
                self.views[hit.visitor].append(hit)
        self.sessions: list[list[Hit]] = []
        for views in self.views.values():
            for before, view in zip([None, *views], views, strict=False):
                if before is None or view.second - before.second >= GAP:
                    self.sessions.append([])
                self.sessions[-1].append(view)

    def goal(self, matches: Callable[[Hit], object]) -> tuple[int, int]:
        """Sessions with a match, and matches."""
        result = [hit for hit in self.people if matches(hit)]
        by_visitor = defaultdict(list)
        for hit in result:
            by_visitor[hit.visitor].append(hit.second)
        reached = [
            session
            for session in self.sessions
            if any(
                session[0].second <= at < session[-1].second + GAP for at in by_visitor[session[0].visitor]
            )
        ]
        return len(reached), len(result)


def depth(views: Sequence[Hit], steps: Sequence[str], within: int | None = None) -> int:
    """How many steps the views take from their first one on."""
    taken = 0
    for view in views:
        if within is not None and view.second - views[0].second > within:
            break
        if taken < len(steps) and re.fullmatch(steps[taken], view.path):
            taken += 1
    return taken


def counts(depths: Sequence[int], steps: int) -> list[int]:
    return [sum(depth > step for depth in depths) for step in range(steps)]


@pytest.fixture(scope="module")
def lines() -> Lines:
    return Lines([line for block in week_blocks(WEEK) for line in block.lines])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    pairs = (("shop", line) for block in week_blocks(WEEK) for line in block.lines)
    for name, rows in tables_of(pairs).items():
        path = home.joinpath("tables", *name.split("."))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(str(path), rows)
    (home / "tidemark.toml").write_text(DECLARED)
    return home


def report(home: Path, *options: str) -> Any:
    done = CliRunner().invoke(report_command, [*options, "--home", str(home), "--json"], obj={})
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_overview(home: Path, lines: Lines) -> None:
    result = report(home, "overview")
    bounced = sum(len(session) == 1 for session in lines.sessions)
    expected = {
        "requests": len(lines.hits),
        "pageviews": sum(hit.pageview for hit in lines.hits),
        "visitors": len({hit.visitor for hit in lines.people}),
        "sessions": len(lines.sessions),
        "bounce_rate": pytest.approx(bounced / len(lines.sessions)),
    }
    assert {name: result[name] for name in expected} == expected


def test_latency(home: Path, lines: Lines) -> None:
    result, ordered = report(home, "latency"), sorted(hit.micros for hit in lines.hits)
    assert result["timed"] == len(ordered)
    for percent in (50, 95, 99):
        exact = ordered[-(-percent * len(ordered) // 100) - 1]
        of_bucket = 2 * (101 / 99) ** meaning.bucket(exact, Fraction(1, 100)) / (101 / 99 + 1)
        assert result[f"p{percent}"] == pytest.approx(of_bucket / 1e6)
        assert result[f"p{percent}"] == pytest.approx(exact / 1e6, rel=0.01)


def test_bots_and_errors(home: Path, lines: Lines) -> None:
    bots = {(row["bot_name"], row["bot_kind"]): row["requests"] for row in report(home, "bots")["rows"]}
    assert bots == Counter((hit.bot.name, hit.bot.kind) for hit in lines.hits if hit.bot)
    errors = {(row["path"], row["status"]): row["requests"] for row in report(home, "errors")["rows"]}
    assert errors == Counter((hit.path, hit.status) for hit in lines.hits if hit.status >= 400)


def test_sources(home: Path, lines: Lines) -> None:
    actual: Counter[tuple[str, str]] = Counter()
    for row in report(home, "sources")["rows"]:
        actual[row["channel"], row["source"]] += row["sessions"]
    entries = [meaning.origin(session[0].referrer, session[0].query) for session in lines.sessions]
    assert actual == Counter((entry.channel, entry.source) for entry in entries)


def test_goals(home: Path, lines: Lines) -> None:
    actual = {row["name"]: (row["conversions"], row["completions"]) for row in report(home, "goals")["goals"]}
    assert actual == {
        "signup": lines.goal(lambda hit: hit.path.startswith("/welcome")),
        "files": lines.goal(lambda hit: re.search(r"\.(pdf|zip)$", hit.path, re.IGNORECASE)),
        "found": lines.goal(lambda hit: meaning.search_term(hit.query)),
    }
    assert min(conversions for conversions, _ in actual.values()) > 5


def test_funnels(home: Path, lines: Lines) -> None:
    def step_counts(name: str) -> list[int]:
        return [step["count"] for step in report(home, "funnel", name)["steps"]]

    assert step_counts("buy") == counts([depth(session, BUY) for session in lines.sessions], 3)
    deepest = [
        max(
            (
                depth(views[at:], VISIT, within=7200)
                for at, view in enumerate(views)
                if re.fullmatch(VISIT[0], view.path)
            ),
            default=0,
        )
        for views in lines.views.values()
    ]
    assert step_counts("visit") == counts(deepest, 4)


def test_retention(home: Path, lines: Lines) -> None:
    days: defaultdict[int, set[tuple[str, str]]] = defaultdict(set)
    for hit in lines.people:
        days[hit.second // DAY].add(hit.visitor)
    expected, before, last = [], set[tuple[str, str]](), max(days)
    for day in range(min(days), last + 1):
        new = days[day] - before
        before |= days[day]
        start = datetime.fromtimestamp(day * DAY, UTC).date().isoformat()
        returned = [len(new & days[later]) for later in range(day, last + 1)]
        expected.append({"start": start, "size": len(new), "returned": returned})
    result = report(home, "retention", "--by", "day")
    names = ("start", "size", "returned")
    assert [{name: cohort[name] for name in names} for cohort in result["cohorts"]] == expected
    assert result["open_from"] == expected[-1]["start"]
