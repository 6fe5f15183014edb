"""Visits of many shapes, and what funnels, retention and paths are of all lines, counted by brute force."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from tests.app.brute import Walk, depth
from tests.pipeline.recount import Expected
from tidemark.figures.declared import Goal, declared
from tidemark.figures.paths import LEVELS, SHOWN
from tidemark.figures.question import Parameters
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.report import REPORTS
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.settings import Settings

GAP = 1800
PAGES = ("/", "/docs", "/cart", "/cart/pay", "/checkout")
STEPS = ("/", "/cart*", "/checkout*")
WITHIN = {"visitors": 2 * 3600, "visits": None}
# Conditions of the goals, for the recount.
GOALS = {"order": "path LIKE '/checkout%'"}
SETTINGS = """
[goals.order]
path = "/checkout*"
[funnels.visitors]
steps = ["/", "/cart*", "goal:order"]
within = "2h"
[funnels.visits]
steps = ["/", "/cart*", "goal:order"]
scope = "session"
"""


def lines(seed: int, start: int, visitors: int) -> list[tuple[str, bytes]]:
    """(site, line) pairs in no order: a line that comes late extends a session, or makes one of two."""
    chance = Random(seed)
    visits = []
    for number in range(visitors):
        at = start + chance.randrange(2 * 86_400)
        for _ in range(chance.randint(1, 8)):
            moment = datetime.fromtimestamp(at, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
            page = chance.choice(PAGES)
            line = f'198.51.100.{number} - - [{moment}] "GET {page} HTTP/1.1" 200 5 "-" "Firefox/140.0" 0.001'
            visits.append((chance.choice(("default", "shop")) if number % 9 == 0 else "shop", line.encode()))
            at += chance.choice((0, 20, 900, GAP - 1, GAP, 4000, 86_400))
    chance.shuffle(visits)
    return visits


def declared_in(settings: Settings) -> Settings:
    """The settings of a home whose file declares SETTINGS."""
    settings.home.mkdir(parents=True, exist_ok=True)
    (settings.home / "tidemark.toml").write_text(SETTINGS)
    goals = {"order": Goal(path="/checkout*")}
    return replace(settings, meaning=replace(settings.meaning, goals=goals))


def assert_walks(home: Path, expected: Expected) -> None:
    """Compares the reports of a home that declares SETTINGS with a recount of all its lines."""
    rows, known = Rows(DeltaReader(home)), declared(home)

    def report(which: str, **wanted: Any) -> dict[str, Any]:
        return REPORTS[which](rows, Selection(), Parameters(known, **wanted)).json

    visitors, sessions = walks(expected), []
    for walk in visitors:
        sessions += split(walk)
    for name, each in (("visitors", visitors), ("visits", sessions)):
        depths = [depth(walk, STEPS, WITHIN[name], None) for walk in each]
        counts = [sum(d > k for d in depths) for k in range(len(STEPS))]
        assert [step["count"] for step in report("funnel", name=name)["steps"]] == counts
        assert counts[-1] > 0
    for page, backward in ((None, False), ("/cart", False), ("/cart", True)):
        levels = report("paths", **{"to_page" if backward else "from_page": page})["levels"]
        assert levels == through(sessions, page, backward=backward)
    assert {c["start"]: c["returned"] for c in report("retention", by="day")["cohorts"]} == cohorts(expected)


def walks(expected: Expected) -> list[Walk]:
    """The pageviews of each visitor of a site in order."""
    result: dict[tuple[object, object], Walk] = defaultdict(list)
    for site, visitor, at, path, count in expected.views:
        result[site, visitor] += [(at, path)] * count  # type: ignore[list-item, operator]
    return [sorted(walk) for walk in result.values()]


def split(walk: Walk) -> list[Walk]:
    """Sessions: pageviews with gaps shorter than GAP."""
    parts: list[Walk] = []
    for at, path in walk:
        if not parts or at - parts[-1][-1][0] >= GAP:
            parts.append([])
        parts[-1].append((at, path))
    return [each[:200] for each in parts]


def through(
    sessions: Sequence[Walk], page: str | None, *, backward: bool
) -> list[list[Mapping[str, object]]]:
    chosen = []
    for session in sessions:
        visits = [path for path, _ in groupby(path for _, path in session)]
        if page is None or page in visits:
            first = 0 if page is None else visits.index(page)
            chosen.append(visits[first::-1] if backward else visits[first:])
    levels = []
    for level in range(LEVELS):
        counts = Counter(visits[level] for visits in chosen if len(visits) > level)
        most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ends = {
            "other": sum(n for _, n in most[SHOWN:]),
            "left": sum(len(visits) == level for visits in chosen),
        }
        kept = [*most[:SHOWN], *((name, n) for name, n in ends.items() if n)]
        levels.append([{"path": path, "count": n} for path, n in kept])
    return levels


def cohorts(expected: Expected) -> dict[str, list[int]]:
    """By first day of a visitor: how many came in each day since."""
    came: dict[tuple[object, object], set[int]] = defaultdict(set)
    for site, visitor, day in expected.people:
        came[site, visitor].add(day)  # type: ignore[arg-type]
    last = max(day for days in came.values() for day in days)
    counts = Counter((min(days), day) for days in came.values() for day in days)
    return {
        (date(1970, 1, 1) + timedelta(days=first)).isoformat(): [
            counts[first, day] for day in range(first, last + 1)
        ]
        for first in sorted({first for first, _ in counts})
    }
