"""Visiting people and bots: real addresses of their countries, user agents, user names."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from itertools import accumulate
from random import Random
from socket import AF_INET6, inet_ntoa, inet_ntop
from typing import TypeVar

import iptocc

from tidemark.parse import networks
from tidemark.parse.bots import FORGED_KIND
from tidemark.traffic import agents
from tidemark.traffic.agents import Bot
from tidemark.traffic.countries import COUNTRIES, Country, activity

UNKNOWN = "ZZ"
_USERS = ("alice", "bob", "Mary Ann Smith", "j.doe@example.org", "Jean Luc", "svc-deploy")
_IPV6_IN = 8  # one of this many visitors has an IPv6 address
_USER_IN = 61
_CLOCK_STEP = 900  # seconds between updates of the countries' activity
_BOT_HOMES = ("US", "US", "US", "DE", "NL", "CN", "SG", "FR", "RU")
_SUSPECTS = 32
# Share of the bots of operators that publish their networks which come from there; the others pretend.
_GENUINE = 0.8
_PRIVATE = ("10.0.", "172.16.", "192.168.")
# 16-bit blocks of which the regional registries have assigned networks.
_IPV6_BLOCKS = (
    *range(0x2400, 0x2410), *range(0x2600, 0x2608), *range(0x2800, 0x2808), *range(0x2A00, 0x2A11),
    0x2001, 0x2003, 0x2C0F, 0x2804, 0x2804, 0x2003,
)  # fmt: skip

T = TypeVar("T")


class Visitor:
    """One (address, user agent) of a country, with the constant parts of its log lines.

    `head` is the text before the time, `tail` the text after the referrer.
    `agent` is as written in the line, with escapes, and empty if none was sent. `bot` is None for a person, and for
    visitors without a user agent.
    """

    __slots__ = ("agent", "bot", "country", "head", "ip", "tail")

    def __init__(self, ip: str, agent: str, country: str, user: str = "-", bot: Bot | None = None) -> None:
        self.ip = ip
        self.agent = "" if agent == "-" else agent
        self.country = country
        self.bot = bot if self.agent else None
        self.head = f"{ip} - {user} [".encode()
        self.tail = f'" "{agent}"'.encode()


class Population:
    """A fixed set of visitors, drawn by country and hour, plus bots.

    Each of `count` people has an address that iptocc places in its country. If a country
    has more people than known addresses, some share one and differ by user agent, as behind one router.
    The same seed and count give the same people while iptocc's data do not change. If the log
    has no user agents (`agents_logged` is false), visitors have none.
    """

    def __init__(self, random: Random, count: int, agents_logged: bool = True) -> None:
        self._random = random.random
        self._agents_logged = agents_logged
        found4 = _by_country(_ipv4(random, min(max(2 * count, 100_000), 2_000_000)))
        found6 = _by_country(_ipv6(random, min(max(count // 2, 40_000), 200_000)))
        found4[UNKNOWN] = [f"{random.choice(_PRIVATE)}{_host(random)}" for _ in range(1000)]
        sizes = [(c, n) for c, n in _sizes(count, [c for c in COUNTRIES if found4[c.code]]) if n]
        self._countries = [country for country, _ in sizes]
        self._sizes = [size for _, size in sizes]
        # Keep only usable addresses; most of the sample is from the few countries with most addresses.
        self._ipv4 = [found4[c.code][:n] for c, n in zip(self._countries, self._sizes, strict=True)]
        self._ipv6 = [found6[c.code][:n] for c, n in zip(self._countries, self._sizes, strict=True)]
        self._agents = weighted_table(agents.people(), 8192)
        self._bots = {
            manner: weighted_table(_bots(random, declared, found4), 4096)
            for manner, declared in agents.BOTS.items()
        }
        self._suspects = [self._suspect(random, found4) for _ in range(_SUSPECTS)]
        self._clock = -1
        self._awake: list[int] = []

    def person(self, now: int) -> Visitor:
        """A person from a country that is active at epoch second `now`; some people visit far more often."""
        if now // _CLOCK_STEP != self._clock:
            self._clock = now // _CLOCK_STEP
            shares = [(i, c.share * activity(c.longitude, now)) for i, c in enumerate(self._countries)]
            self._awake = weighted_table(shares, 8192)
        place = self._awake[int(self._random() * 8192)]
        return self._make(place, int(self._sizes[place] * self._random() ** 1.5))

    def bot(self, manner: str) -> Visitor:
        """A bot of one of the manners of agents.BOTS."""
        bot = self._bots[manner][int(self._random() * 4096)]
        return bot if self._agents_logged else Visitor(bot.ip, "", bot.country)

    def suspect(self, turn: int, of: int) -> Visitor:
        """A program that sends a browser's user agent; those of turn 0 to `of` - 1 are never the same."""
        return self._suspects[int(self._random() * (_SUSPECTS // of)) * of + turn]

    def _suspect(self, random: Random, addresses: dict[str, list[str]]) -> Visitor:
        country = random.choice([code for code in _BOT_HOMES if addresses[code]])
        agent = random.choice(self._agents) if self._agents_logged else ""
        return Visitor(random.choice(addresses[country]), agent, country)

    def _make(self, place: int, number: int) -> Visitor:
        ipv4, ipv6 = self._ipv4[place], self._ipv6[place]
        turn, rest = divmod(number, _IPV6_IN)
        address = ipv6[turn] if rest == 3 and turn < len(ipv6) else ipv4[number % len(ipv4)]
        # A hash of the number: the same person always has the same browser, without a table.
        mixed = (number * 0x9E3779B1 + place * 0x85EBCA6B) & 0xFFFFFFFF
        agent = self._agents[(mixed ^ mixed >> 15) % 8192] if self._agents_logged else ""
        user = _USERS[number % len(_USERS)] if number % _USER_IN == 7 else "-"
        return Visitor(address, agent, self._countries[place].code, user)


def weighted_table(weighted: Iterable[tuple[T, float]], size: int) -> list[T]:
    """`size` values, each as often as its weight, so that a uniform draw is a weighted draw."""
    values, weights = zip(*weighted, strict=True)
    edges = list(accumulate(weights))
    return [values[bisect(edges, (i + 0.5) / size * edges[-1])] for i in range(size)]


def _sizes(count: int, countries: Sequence[Country]) -> Iterable[tuple[Country, int]]:
    """Number of people of each country by its share, `count` in total; small countries may have none."""
    total, shares, given = sum(c.share for c in countries), 0.0, 0
    for country in countries:
        shares += country.share
        size = round(count * shares / total) - given
        given += size
        yield country, size


def _bots(
    random: Random, declared: Sequence[Bot], addresses: dict[str, list[str]]
) -> Iterable[tuple[Visitor, float]]:
    homes = [code for code in _BOT_HOMES if addresses[code]]
    for bot in declared:
        home = random.choice(homes)
        for _ in range(random.randint(2, 12)):
            yield declared_bot(bot, random.choice(addresses[home]), home), bot.weight


def declared_bot(bot: Bot, address: str, country: str) -> Visitor:
    """A bot at an address; most bots whose operators publish their networks are at one of these instead."""
    chance, published = Random(address), networks.published(bot.name)
    if published and chance.random() < _GENUINE:
        address = _address_in(chance, chance.choice(published))
        country = iptocc.country_code(address) or UNKNOWN
    [verified] = networks.verified([bot.name], [address])
    known = bot._replace(kind=FORGED_KIND) if verified == networks.FORGED else bot
    return Visitor(address, bot.agent, country, bot=known if bot.name else None)


def _address_in(random: Random, text: str) -> str:
    network = ip_network(text)
    return str(network[random.randrange(network.num_addresses)])


def _ipv4(random: Random, count: int) -> list[str]:
    raw = random.randbytes(4 * count)
    return [inet_ntoa(raw[i : i + 4]) for i in range(0, len(raw), 4)]


def _ipv6(random: Random, count: int) -> list[str]:
    blocks = [block.to_bytes(2, "big") for block in _IPV6_BLOCKS]
    return [inet_ntop(AF_INET6, random.choice(blocks) + random.randbytes(14)) for _ in range(count)]


def _host(random: Random) -> str:
    return f"{random.randint(0, 255)}.{random.randint(1, 254)}"


def _by_country(addresses: list[str]) -> dict[str, list[str]]:
    by_country: dict[str, list[str]] = defaultdict(list)
    for address, country in zip(addresses, iptocc.country_code(addresses), strict=True):
        if country is not None:
            by_country[country].append(address)
    return by_country
