"""Behaviour of visitors: each kind of visit is a generator of page loads, and a crowd runs many at once."""

from __future__ import annotations

from collections import defaultdict
from math import log
from random import Random

from tidemark.traffic import referrers, robots, site
from tidemark.traffic.referrers import Arrival
from tidemark.traffic.robots import Hit, Visit
from tidemark.traffic.site import VARIANTS, Page, Site
from tidemark.traffic.visitors import Population, Visitor, weighted_table

# Shares of visits. A hurrying suspect makes more than ten times as many requests as others.
_KINDS = [
    ("person", 77.0), ("crawler", 7.0), ("preview", 1.5), ("feed", 4.0), ("monitor", 4.0), ("client", 1.0),
    ("scanner", 5.0), ("robots_txt", 0.2), ("no_assets", 0.12), ("fast", 0.06), ("all_404", 0.12),
]  # fmt: skip
_TABLE = 4096
_BOUNCE = 0.38
_LEAVE = 0.24
_MEAN_LOOK = 42.0  # seconds on a page
_PAUSE = 0.03  # share of pages after which a visitor pauses for up to 50 minutes
_LONGEST_PAUSE = 3000

_BROKEN = [
    site.request(path, status=404, size=size)
    for path, size in (
        ("/old-page", 1245),
        ("/articles/", 1245),
        ("/products/kettle-0", 1245),
        ("/wp-content/", 548),
    )
]
_BROKEN.append(site.request("/img/missing.png", status=404, size=548, asset=True))
_NOT_MODIFIED = 0.25


class Crowd:
    """All visitors of the site. `step` returns exactly the requested number of requests.

    New visits begin only when the current ones make fewer requests than requested, so the caller sets the rate.
    Everything follows from the given random generator.
    """

    def __init__(self, plan: Site, population: Population, random: Random) -> None:
        self._site = plan
        self._people = population
        self._rng = random
        self._random = random.random
        self._arrivals = referrers.arrivals()
        self._kinds = weighted_table(_KINDS, _TABLE)
        self._agenda: defaultdict[int, list[Visit]] = defaultdict(list)
        self._waiting: list[Hit] = []

    def step(self, now: int, count: int) -> list[Hit]:
        """The next `count` requests, all of epoch second `now`, which must never decrease."""
        hits = self._waiting
        agenda = self._agenda
        for visit in agenda.pop(now, ()):
            load = next(visit, None)
            if load is not None:
                hits += load[0]
                agenda[now + load[1]].append(visit)
        while len(hits) < count:
            visit = self.begin(now)
            load = next(visit)
            hits += load[0]
            agenda[now + load[1]].append(visit)
        self._waiting = hits[count:]
        return hits[:count]

    def begin(self, now: int) -> Visit:
        """A visit of a person or a bot that begins at epoch second `now`."""
        kind = self._kinds[int(self._random() * _TABLE)]
        if kind == "person":
            return self.person(self._people.person(now))
        suspicions = list(robots.SUSPECTED)
        if kind in suspicions:
            visitor = self._people.suspect(suspicions.index(kind), len(suspicions))
            return robots.SUSPECTED[kind](visitor, self._site, self._rng)
        return robots.DECLARED[kind](self._people.bot(kind), self._site, self._rng)

    def person(self, visitor: Visitor, arrival: Arrival | None = None) -> Visit:
        """A visit of a person, who comes by `arrival` or a random one."""
        random, plan = self._random, self._site
        referrer, query = arrival or self._arrivals[int(random() * referrers.TABLE)]
        page = plan.landing[int(random() * site.TABLE)]
        answer = page.variants[int(random() * VARIANTS)]
        if query:
            answer = site.request(page.path, query=query, size=page.size, seconds=answer.seconds)
        hits: list[Hit] = [(visitor, answer, referrer)]
        if random() >= _NOT_MODIFIED:  # otherwise the browser has cached them in an earlier visit
            hits += [(visitor, asset, page.url) for asset in plan.common]
        leave = _BOUNCE
        while True:
            for asset in page.assets:
                hits.append((visitor, asset, page.url))
            yield hits, self._look()
            if random() < leave:
                return
            leave, referrer = _LEAVE, page.url
            chance = random()
            if chance < 0.88:
                page = page.links[int(random() * len(page.links))]
                hits = [(visitor, page.variants[int(random() * VARIANTS)], referrer)]
            else:
                page, hits = self._detour(visitor, page, chance)

    def _detour(self, visitor: Visitor, page: Page, chance: float) -> tuple[Page, list[Hit]]:
        """Actions other than following a link: search, log in, sign up, run into errors."""
        rng, plan, referrer = self._rng, self._site, page.url
        if chance < 0.93:
            query = rng.choice(plan.searches)
            took = plan.results.variants[int(rng.random() * VARIANTS)].seconds
            hit = site.request("/search", query=query, size=rng.randint(4000, 9000), seconds=took)
            return plan.results, [(visitor, hit, referrer)]
        if chance < 0.955:
            form = plan.login.variants[0]
            hits: list[Hit] = [(visitor, form, referrer)]
            if rng.random() < 0.2:
                hits.append(
                    (visitor, site.request("/login", method="POST", status=401, size=812), plan.login.url)
                )
            hits.append((visitor, site.request("/login", method="POST", status=302, size=0), plan.login.url))
            return plan.account, [*hits, (visitor, plan.account.variants[0], plan.login.url)]
        if chance < 0.965:
            sent = site.request("/signup", method="POST", status=303, size=0)
            start = plan.signup.variants[0]
            return plan.account, [(visitor, start, referrer), (visitor, sent, plan.signup.url)]
        if chance < 0.98:
            old, new = rng.choice(plan.moved)
            return new, [(visitor, old, referrer), (visitor, new.variants[0], referrer)]
        if chance < 0.992:
            return page, [(visitor, rng.choice(_BROKEN), referrer)]
        if chance < 0.996:
            return page, [(visitor, rng.choice(plan.downloads), referrer)]
        failed = site.request(page.path, status=rng.choice((500, 500, 502, 503)), size=170)
        return page, [(visitor, failed, referrer), (visitor, page.variants[1], referrer)]

    def _look(self) -> int:
        random = self._random
        if random() < _PAUSE:
            return int(random() * _LONGEST_PAUSE) + 1
        return int(-log(1.0 - random()) * _MEAN_LOOK) + 1
