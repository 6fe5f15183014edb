"""A week of past traffic with a story: a campaign, a crawler's visit, a broken link, a slow search, an outage, visits
that AI assistants send, and minutes without a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from random import Random

from tidemark.traffic import agents, site
from tidemark.traffic.behaviour import Crowd
from tidemark.traffic.countries import volume
from tidemark.traffic.lines import combined, with_request_time
from tidemark.traffic.referrers import ASSISTANTS, Arrival
from tidemark.traffic.robots import Hit, Visit
from tidemark.traffic.site import ORIGIN, Site, build_site
from tidemark.traffic.stream import Block, Outcome, unavailable
from tidemark.traffic.visitors import Population, Visitor, declared_bot

DAY = 86_400
CAMPAIGN = Arrival(b"-", "utm_source=newsletter&utm_medium=email&utm_campaign=harvest-sale")
BROKEN_PATH = "/products/grinder-pro"
BROKEN_REFERRER = b"https://blog.coffee-notes.example/best-grinders-of-the-year"
CRAWLER = next(bot for bot in agents.BOTS["crawler"] if bot.name == "GPTBot")
SLOWED = "/search"

_VISITORS = 30_000
# People's countries follow the time of day in steps of this many seconds, because each step takes some milliseconds.
_AWAKE_SECONDS = 3 * 3600
_CAMPAIGN_SECONDS = 10 * 3600
_CAMPAIGN_SHARE = 0.05  # of the week's lines
_CRAWL_SECONDS = 2400
_CRAWL_SHARE = 0.02
_BROKEN_SHARE = 0.012  # of the week's lines: visits, about as many lines
_BROKEN_STAY = 0.4
_ASSISTED_SHARE = 0.012
_SLOW_SECONDS = 6 * 3600
_SLOWER = 12  # times
_SILENT_SECONDS = 1200
_OUTAGE_SECONDS = 1800
_RELOADS = 3  # A page that fails is requested so often.
_MISSING = site.request(BROKEN_PATH, status=404, size=1245)


@dataclass(frozen=True)
class Week:
    """The seven days before epoch second `end`, of about `lines` lines in combined format with the request time.

    The same values give the same bytes while iptocc's data do not change. All times are epoch seconds; hours are UTC.
    The default fits into a batch that the pipeline processes without executors, whose start takes seconds.
    """

    end: int
    lines: int = 48_000
    seed: int = 0

    @property
    def start(self) -> int:
        return self.end - 7 * DAY

    @property
    def campaign(self) -> range:
        """Seconds in which a newsletter brings visits: ten hours, from nine in the morning of the second whole day."""
        return self._from(1, 9, _CAMPAIGN_SECONDS)

    @property
    def crawl(self) -> range:
        """Seconds in which a crawler reads all pages: forty minutes in the third night."""
        return self._from(2, 3, _CRAWL_SECONDS)

    @property
    def broken_link(self) -> range:
        """Seconds in which another site links to a page that does not exist: from the fourth day until the end."""
        first = self._from(3, 7, 1).start
        return range(first, self.end)

    @property
    def slow(self) -> range:
        """Seconds in which the search takes twelve times as long: from ten in the morning of the fourth day to four."""
        return self._from(3, 10, _SLOW_SECONDS)

    @property
    def silence(self) -> range:
        """Seconds without any line, as the server or its network is off: twenty minutes in the sixth night."""
        return self._from(5, 2, _SILENT_SECONDS)

    @property
    def outage(self) -> range:
        """Seconds in which the server answers 503 to everything: half an hour in the fifth evening."""
        return self._from(4, 18, _OUTAGE_SECONDS)

    def _from(self, day: int, hour: int, seconds: int) -> range:
        midnight = -(-self.start // DAY) * DAY
        first = midnight + day * DAY + hour * 3600
        return range(first, first + seconds)


def week_blocks(week: Week) -> Iterator[Block]:
    """The week's lines with their outcomes in order of time, one block per second with lines."""
    random = Random(f"{week.seed}/week")
    plan, people = build_site(), Population(random, _VISITORS)
    visits = _Visits(week, random, plan, people)
    hits = sorted(visits.hits(), key=itemgetter(0))
    outage, slow, silence = week.outage, week.slow, week.silence
    form = with_request_time(combined)
    for second, group in groupby(hits, key=itemgetter(0)):
        if second in silence:
            continue
        arrived = [hit for _, hit in group]
        if second in slow:
            arrived = [_slowed(hit) for hit in arrived]
        if second in outage:
            arrived = [failed for hit in arrived for failed in _unavailable(hit)]
        yield Block(second, 1.0, form(arrived, second), [Outcome(second, hit) for hit in arrived])


class _Visits:
    """Makes the visits of a week one after the other, each from its first to its last request."""

    def __init__(self, week: Week, random: Random, plan: Site, people: Population) -> None:
        self._week = week
        self._rng = random
        self._plan = plan
        self._people = people
        self._crowd = Crowd(plan, people, random)
        self._sent = 0

    def hits(self) -> Iterator[tuple[int, Hit]]:
        """All requests with their seconds, visit by visit."""
        week, story = self._week, _CAMPAIGN_SHARE + _CRAWL_SHARE + _BROKEN_SHARE + _ASSISTED_SHARE
        per_hour, due = week.lines * (1 - story) / (7 * 24), 0.0
        for hour in range(week.start, week.end, 3600):
            due += per_hour * volume(hour + 1800)
            yield from self._until(due, range(hour, hour + 3600))
        yield from self._campaign(round(week.lines * _CAMPAIGN_SHARE))
        yield from self._crawl(round(week.lines * _CRAWL_SHARE))
        yield from self._assisted(round(week.lines * _ASSISTED_SHARE))
        for _ in range(round(week.lines * _BROKEN_SHARE)):
            visitor = self._people.person(week.broken_link.start)
            yield from self._played(self._rng.choice(week.broken_link), self._misled(visitor))

    def _until(self, lines: float, seconds: range) -> Iterator[tuple[int, Hit]]:
        """Visits of all kinds that begin in these seconds, until this many lines are sent in all."""
        awake = seconds.start // _AWAKE_SECONDS * _AWAKE_SECONDS
        while self._sent < lines:
            for hit in self._played(self._rng.choice(seconds), self._crowd.begin(awake)):
                self._sent += 1
                yield hit

    def _campaign(self, lines: int) -> Iterator[tuple[int, Hit]]:
        """People who follow a newsletter's link, most of them soon after it was sent."""
        sent, seconds = 0, self._week.campaign
        while sent < lines:
            second = seconds[int(len(seconds) * self._rng.random() ** 2.5)]
            visitor = self._people.person(seconds.start)
            for hit in self._played(second, self._crowd.person(visitor, CAMPAIGN)):
                sent += 1
                yield hit

    def _assisted(self, lines: int) -> Iterator[tuple[int, Hit]]:
        """People who follow a link in an AI assistant's answer."""
        sent, seconds = 0, range(self._week.start, self._week.end)
        while sent < lines:
            second = self._rng.choice(seconds)
            visitor = self._people.person(second // _AWAKE_SECONDS * _AWAKE_SECONDS)
            for hit in self._played(second, self._crowd.person(visitor, self._rng.choice(ASSISTANTS))):
                sent += 1
                yield hit

    def _crawl(self, lines: int) -> Iterator[tuple[int, Hit]]:
        """One crawler that reads the pages one after the other."""
        home = self._people.bot("crawler")
        crawler = declared_bot(CRAWLER, home.ip, home.country)
        pages, seconds = self._plan.pages, self._week.crawl
        for number in range(lines):
            page = pages[number % len(pages)]
            yield seconds[number * len(seconds) // lines], (crawler, page.variants[number % 8], b"-")

    def _misled(self, visitor: Visitor) -> Visit:
        """A visit that begins at a page that does not exist; some people go on from there."""
        yield [(visitor, _MISSING, BROKEN_REFERRER)], self._rng.randint(3, 20)
        if self._rng.random() < _BROKEN_STAY:
            yield [(visitor, self._plan.pages[0].variants[0], f"{ORIGIN}{BROKEN_PATH}".encode())], 1

    def _played(self, second: int, visit: Visit) -> Iterator[tuple[int, Hit]]:
        """The requests of a visit that begins at this second, as far as they are in the week."""
        for hits, pause in visit:
            if second >= self._week.end:
                return
            for hit in hits:
                yield second, hit
            second += pause


def _slowed(hit: Hit) -> Hit:
    """The same request, answered later if it is a search."""
    visitor, request, referrer = hit
    if request.path != SLOWED:
        return hit
    return visitor, replace(request, seconds=b"%.3f" % (_SLOWER * float(request.seconds))), referrer


def _unavailable(hit: Hit) -> list[Hit]:
    """The same request, answered with 503, as often as it is tried; unchanged if it is not HTTP."""
    return [unavailable(hit)] * (_RELOADS if hit[1].page else 1)
