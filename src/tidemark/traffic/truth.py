"""The exact expected result of the pipeline, counted from the generated hits and never from log lines."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidemark.errors import InputError
from tidemark.traffic.facts import Facts, VisitorKey
from tidemark.traffic.site import CONVERTED, FUNNEL
from tidemark.traffic.stream import Outcome

WINDOW_SECONDS = 300
SESSION_GAP_SECONDS = 1800


@dataclass(frozen=True)
class Window:
    """Counts of one site, 5-minute window (epoch second of its start) and country."""

    site: str
    window_start: int
    country: str
    visitors: int
    pageviews: int
    requests: int
    bot_requests: int


@dataclass(frozen=True)
class Session:
    """One visitor's pageviews on a site without a gap of 30 minutes; times in epoch seconds.

    `entry` and `exit` are the paths of the first and last pageview; within one second, the smallest and the largest.
    """

    site: str
    ip: str
    agent: str
    country: str
    start: int
    end: int
    pageviews: int
    entry: str
    exit: str


@dataclass(frozen=True)
class Conversions:
    """`completions` are people's requests of `path`, `conversions` the sessions with at least one.

    `funnel`: sessions that reached each of these pages in their order, as pageviews.
    """

    site: str
    path: str
    completions: int
    conversions: int
    funnel: dict[str, int]


@dataclass(slots=True)
class _Counts:
    visitors: set[VisitorKey] = field(default_factory=set)
    pageviews: int = 0
    requests: int = 0
    bot_requests: int = 0


@dataclass
class Tally:
    """Numbers of expected lines; unlike Truth it needs no memory per visitor."""

    accepted: int = 0
    rejected: int = 0
    pageviews: int = 0

    def extend(self, outcomes: Iterable[Outcome]) -> None:
        """Counts many lines."""
        for _, (visitor, request, _), reason in outcomes:
            self.accepted += reason is None
            self.rejected += reason is not None
            self.pageviews += reason is None and request.page and not visitor.bot


class Truth:
    """Collects outcomes in any order. Add each line that reached the pipeline once.

    `timed`: whether accepted lines have a duration. `facts` has what is known beyond windows and sessions.
    """

    def __init__(self, timed: bool = False) -> None:
        self.facts = Facts()
        self.accepted = 0
        self.timed = 0
        self.rejected: Counter[str] = Counter()
        self._windows: defaultdict[tuple[str, int, str], _Counts] = defaultdict(_Counts)
        self._durations = timed
        self._converted: defaultdict[tuple[str, VisitorKey], list[int]] = defaultdict(list)
        self._views: defaultdict[tuple[str, VisitorKey, str], list[tuple[int, str]]] = defaultdict(list)

    @property
    def lines(self) -> int:
        return self.accepted + self.rejected.total()

    def extend(self, site: str, outcomes: Iterable[Outcome]) -> None:
        """Counts many lines of `site`."""
        outcomes = list(outcomes)
        self.facts.extend(site, outcomes)
        for second, (visitor, request, _), reason in outcomes:
            if reason is not None:
                self.rejected[reason] += 1
                continue
            self.accepted += 1
            self.timed += self._durations
            counts = self._windows[site, second - second % WINDOW_SECONDS, visitor.country]
            counts.requests += 1
            if visitor.bot:
                counts.bot_requests += 1
                continue
            key = (visitor.ip, visitor.agent)
            counts.visitors.add(key)
            if request.path == CONVERTED:
                self._converted[site, key].append(second)
            if request.page and request.path is not None:
                counts.pageviews += 1
                self._views[site, key, visitor.country].append((second, request.path))

    def windows(self) -> list[Window]:
        """All windows with requests, ordered by site, time and country."""
        return [
            Window(*key, len(c.visitors), c.pageviews, c.requests, c.bot_requests)
            for key, c in sorted(self._windows.items(), key=lambda item: item[0])
        ]

    def sessions(self) -> list[Session]:
        """All sessions, including open ones, ordered by site, visitor and start."""
        return [
            Session(site, ip, agent, country, run[0][0], run[-1][0], len(run), run[0][1], run[-1][1])
            for (site, (ip, agent), country), views in sorted(self._views.items())
            for run in _runs(sorted(views))
        ]

    def conversions(self) -> list[Conversions]:
        """How often the last page of a purchase was reached, by site."""
        return [self._conversions(site) for site in sorted({key[0] for key in self._views})]

    def _conversions(self, site: str) -> Conversions:
        reached = [0] * len(FUNNEL)
        converted = 0
        for (of, key, _), views in self._views.items():
            if of != site:
                continue
            matches = self._converted.get((site, key), [])
            for run in _runs(sorted(views)):
                converted += any(run[0][0] <= match < run[-1][0] + SESSION_GAP_SECONDS for match in matches)
                step = 0
                for _, path in run:
                    if step < len(FUNNEL) and path == FUNNEL[step]:
                        reached[step] += 1
                        step += 1
        completions = sum(len(sessions) for (of, _), sessions in self._converted.items() if of == site)
        return Conversions(site, CONVERTED, completions, converted, dict(zip(FUNNEL, reached, strict=True)))

    def as_json(self) -> dict[str, Any]:
        """`lines`, `accepted`, `timed`, `rejected` by reason, `windows`, `sessions`, `conversions` and the facts; times
        as ISO 8601 in UTC."""
        windows = [{**asdict(w), "window_start": _iso(w.window_start)} for w in self.windows()]
        sessions = [{**asdict(s), "start": _iso(s.start), "end": _iso(s.end)} for s in self.sessions()]
        return {
            "lines": self.lines,
            "accepted": self.accepted,
            "timed": self.timed,
            "rejected": dict(sorted(self.rejected.items())),
            "windows": windows,
            "sessions": sessions,
            "conversions": [asdict(each) for each in self.conversions()],
            **self.facts.as_json(_iso),
        }

    def write(self, path: Path) -> None:
        """Writes `as_json`, compressed if the name ends in .gz. Raises InputError if this fails."""
        text = json.dumps(self.as_json(), indent=1).encode()
        try:
            path.write_bytes(gzip.compress(text, 6, mtime=0) if path.suffix == ".gz" else text)
        except OSError as error:
            raise InputError(
                f"cannot write {path}: {error.strerror}", "Name a file that can be written."
            ) from error


def _runs(views: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    begin = 0
    for i in range(1, len(views)):
        if views[i][0] - views[i - 1][0] >= SESSION_GAP_SECONDS:
            yield views[begin:i]
            begin = i
    yield views[begin:]


def _iso(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
