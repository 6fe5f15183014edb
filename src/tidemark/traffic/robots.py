"""Behaviour of programs: declared bots, and suspects, which send a browser's user agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random

from tidemark.traffic import site
from tidemark.traffic.site import VARIANTS, Request, Site
from tidemark.traffic.visitors import Visitor

Hit = tuple[Visitor, Request, bytes]
"""Visitor, request and referrer."""

Visit = Iterator[tuple[list[Hit], int]]
"""Page loads, each with the seconds until the next."""

Behaviour = Callable[[Visitor, Site, Random], Visit]

_ROBOTS = site.request("/robots.txt", size=310)
_FEED = site.request("/feed.xml", size=5211, seconds=b"0.031")
_HEALTH = site.request("/health", size=2, seconds=b"0.001")
_ASKS_FIRST = 0.8  # share of crawlers that fetch /robots.txt
_GONE = 0.04  # share of a crawler's pages that no longer exist
_OLD_PAGES = [site.request(f"/articles/archive-{year}", status=404, size=1245) for year in range(2015, 2024)]
_PROBES = [
    *(
        site.request(p, status=404, size=548)
        for p in ("/wp-login.php", "/.env", "/.git/config", "/admin/config.php")
    ),
    site.request("/index.php", query="s=/index/think&vars[0]=md5", status=404, size=548),
    site.request("/xmlrpc.php", method="POST", status=405, size=552),
    site.request("/", method="HEAD", size=None, protocol="HTTP/1.0"),
    site.request("/", size=4521, protocol="HTTP/1.0", seconds=b"0.040"),
    site.request("/cgi-bin/luci/;stok=/locale", query="form=country", status=404, size=548),
    site.not_http(r"\x16\x03\x01\x00\xee\x01\x00\x00\xea\x03\x03\xd0g"),
    site.not_http(r"\x03\x00\x00/*\xe0\x00\x00\x00\x00\x00Cookie: mstshash=Administr"),
    site.not_http("SSH-2.0-Go"),
    site.not_http("-", status=408, size=None),
    site.not_http(r"\n", status=400, size=0),
    site.not_http("MGLNDD_203.0.113.9_443"),
]
_GUESSES = [
    site.request(f"/{name}{ending}", status=404, size=548)
    for name in ("backup", "db", "dump", "old", "config", "phpinfo", "test", "admin")
    for ending in (".php", ".sql", ".bak", "/")
]


def _page(plan: Site, rng: Random) -> Request:
    return plan.landing[int(rng.random() * site.TABLE)].variants[int(rng.random() * VARIANTS)]


def _crawler(visitor: Visitor, plan: Site, rng: Random) -> Visit:
    if rng.random() < _ASKS_FIRST:
        yield [(visitor, _ROBOTS, b"-")], 1
    for _ in range(rng.randint(3, 25)):
        request = rng.choice(_OLD_PAGES) if rng.random() < _GONE else _page(plan, rng)
        yield [(visitor, request, b"-")], rng.randint(1, 12)


def _preview(visitor: Visitor, plan: Site, rng: Random) -> Visit:
    page = plan.landing[int(rng.random() * site.TABLE)]
    yield [(visitor, page.variants[0], b"-"), *((visitor, asset, b"-") for asset in page.assets[:1])], 2


def _polling(request: Request, visitor: Visitor, plan: Site, rng: Random) -> Visit:
    for _ in range(8):
        yield [(visitor, request, b"-")], 60


def _client(visitor: Visitor, plan: Site, rng: Random) -> Visit:
    for page in range(1, rng.randint(2, 7)):
        hit = site.request(
            "/api/products", query=f"page={page}", size=rng.randint(900, 4000), seconds=site.took(rng, 0.09)
        )
        yield [(visitor, hit, b"-")], rng.randint(1, 4)


def _scanner(visitor: Visitor, plan: Site, rng: Random) -> Visit:
    for _ in range(rng.randint(1, 6)):
        yield [(visitor, rng.choice(_PROBES), b"-")], rng.randint(1, 3)


def _asks_for_robots(visitor: Visitor, plan: Site, rng: Random) -> Visit:
    yield [(visitor, _ROBOTS, b"-")], 1
    for _ in range(rng.randint(3, 9)):
        yield [(visitor, _page(plan, rng), b"-")], rng.randint(2, 20)


def _loads_no_assets(visitor: Visitor, plan: Site, rng: Random) -> Visit:
    for _ in range(rng.randint(32, 45)):
        yield [(visitor, _page(plan, rng), b"-")], rng.randint(3, 25)


def _hurries(visitor: Visitor, plan: Site, rng: Random) -> Visit:
    # Of fifty seconds at least twenty-five are in one clock minute.
    for _ in range(50):
        yield [(visitor, _page(plan, rng), b"-") for _ in range(3)], 1


def _guesses(visitor: Visitor, plan: Site, rng: Random) -> Visit:
    for _ in range(rng.randint(11, 18)):
        yield [(visitor, rng.choice(_GUESSES), b"-")], rng.randint(1, 3)


DECLARED: Mapping[str, Behaviour] = {
    "crawler": _crawler,
    "preview": _preview,
    "feed": partial(_polling, _FEED),
    "monitor": partial(_polling, _HEALTH),
    "client": _client,
    "scanner": _scanner,
}
"""By the manners of agents.BOTS."""

SUSPECTED: Mapping[str, Behaviour] = {
    "robots_txt": _asks_for_robots,
    "no_assets": _loads_no_assets,
    "fast": _hurries,
    "all_404": _guesses,
}
"""By what raises the suspicion: see silver.visitor_days."""
