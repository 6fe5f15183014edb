"""Expected facts of generated traffic beyond windows and sessions: bots, campaigns, searches, statuses, suspects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tidemark.parse.networks import kinds_of
from tidemark.traffic.stream import Outcome

_DAY = 86_400
_MINUTE = 60

VisitorKey = tuple[str, str]
"""Client address and user agent, as written in the line."""


@dataclass(slots=True)
class Day:
    """A person's requests of one day; `minutes` are pageviews by epoch minute."""

    requests: int = 0
    assets: int = 0
    not_found: int = 0
    robots_txt: int = 0
    hosted: bool = False
    minutes: Counter[int] = field(default_factory=Counter)

    def rules(self, others_have_assets: bool) -> Iterator[str]:
        """The rules by which the day is suspected to be that of a program, see silver.visitor_days."""
        if self.robots_txt:
            yield "a"
        if self.minutes.total() >= 30 and not self.assets and others_have_assets:
            yield "b"
        if max(self.minutes.values(), default=0) > 60:
            yield "c"
        if self.requests >= 10 and self.not_found == self.requests:
            yield "d"
        if self.hosted and self.minutes.total() >= 3 and not self.assets and others_have_assets:
            yield "e"


class Facts:
    """Counts accepted lines in any order."""

    def __init__(self) -> None:
        self.bots: Counter[tuple[str, str, str, str]] = Counter()
        """Requests by site, name, kind and purpose."""
        self.campaigns: Counter[tuple[str, str]] = Counter()
        """People's pageviews by site and campaign."""
        self.searches: Counter[tuple[str, int, str]] = Counter()
        """People's searches by site, day (epoch second of its start) and term."""
        self.statuses: Counter[tuple[str, int]] = Counter()
        """Requests by site and status."""
        self._days: defaultdict[tuple[str, int], defaultdict[VisitorKey, Day]] = defaultdict(
            lambda: defaultdict(Day)
        )

    def extend(self, site: str, outcomes: Iterable[Outcome]) -> None:
        """Counts many lines of `site`."""
        for second, (visitor, request, _), reason in outcomes:
            if reason is not None:
                continue
            self.statuses[site, request.status] += 1
            if visitor.bot:
                self.bots[site, visitor.bot.name, visitor.bot.kind, visitor.bot.purpose] += 1
                continue
            midnight = second - second % _DAY
            if request.search:
                self.searches[site, midnight, request.search] += 1
            if request.campaign and request.page:
                self.campaigns[site, request.campaign] += 1
            day = self._days[site, midnight][visitor.ip, visitor.agent]
            day.requests += 1
            day.assets += request.asset
            day.not_found += request.status == 404
            day.robots_txt += request.path == "/robots.txt"
            if request.page:
                day.minutes[second // _MINUTE] += 1

    def suspected(self) -> Counter[tuple[str, int, str]]:
        """Visitors by site, day and rule; one that breaks several rules counts for each."""
        suspected: Counter[tuple[str, int, str]] = Counter()
        for (site, midnight), days in self._days.items():
            for (_, day), kind in zip(days.items(), kinds_of([ip for ip, _ in days]), strict=True):
                day.hosted = kind == "hosting"
            loading = sum(day.assets > 0 for day in days.values())
            for day in days.values():
                # Who loads assets is not one of the others, but then rule b does not hold either.
                suspected.update((site, midnight, rule) for rule in day.rules(loading > 0))
        return suspected

    def as_json(self, iso: Callable[[int], str]) -> dict[str, Any]:
        """Lists of objects, ordered by their keys; `iso` formats epoch seconds."""

        def objects(counts: Counter[Any], *names: str) -> list[dict[str, Any]]:
            rows = [dict(zip(names, (*key, number), strict=True)) for key, number in sorted(counts.items())]
            return [row | {"day": iso(row["day"])} if "day" in row else row for row in rows]

        return {
            "bots": objects(self.bots, "site", "name", "kind", "purpose", "requests"),
            "campaigns": objects(self.campaigns, "site", "campaign", "pageviews"),
            "searches": objects(self.searches, "site", "day", "term", "searches"),
            "statuses": objects(self.statuses, "site", "status", "requests"),
            "suspected": objects(self.suspected(), "site", "day", "rule", "visitors"),
        }
