"""What a line says by the definitions alone: bot, channel, source, tags, search term, latency bucket.

It shares no code with the project. What it takes from the same sources is data: the lists of crawlers, and the lists of
search engines, social networks, assistants, mail, video and shopping.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote_plus, urlsplit
from urllib.robotparser import RobotFileParser

import crawleruseragents

import tidemark

KINDS = (
    "ai-crawler", "search-engine", "scanner", "seo", "monitoring", "social-preview", "feed-reader", "archiver",
    "academic", "advertising", "http-library", "browser-automation",
)  # fmt: skip
# As their operators document them; those that occur in the tests.
PURPOSES = {
    "GPTBot": "training", "ClaudeBot": "training", "CCBot": "training", "meta-externalagent": "training",
    "OAI-SearchBot": "search", "PerplexityBot": "search", "Claude-SearchBot": "search",
    "ChatGPT-User": "assistant", "Claude-User": "assistant", "Perplexity-User": "assistant",
}  # fmt: skip
SEARCH_PARAMETERS = ("q", "s", "query", "search", "keyword", "term")
MOST = 200
_DIRECTORY = Path(tidemark.__file__).parent / "parse"
# Parameter, whether it tells of a paid search or a paid social visit, and the host of who adds it.
CLICK_IDS = (
    ("gclid", "search", "google.com"), ("gbraid", "search", "google.com"), ("wbraid", "search", "google.com"),
    ("msclkid", "search", "bing.com"), ("yclid", "search", "yandex.ru"), ("ttclid", "social", "tiktok.com"),
    ("twclid", "social", "twitter.com"), ("li_fat_id", "social", "linkedin.com"), ("fbclid", "", "facebook.com"),
)  # fmt: skip


class Bot(NamedTuple):
    name: str
    kind: str
    purpose: str | None


@cache
def bot_of(agent: str) -> Bot | None:
    """The declared bot of a user agent, None for people."""
    for own, tags in _own_crawlers():
        if "person" in tags:
            agent = own.sub(" ", agent)
    longest: tuple[int, str, list[str]] = (0, "", [])
    for pattern, tags in _crawlers():
        for match in pattern.finditer(agent):
            if len(match[0]) > longest[0]:
                longest = (len(match[0]), match[0], tags)
    _, text, tags = longest
    name = text.strip("/ ")
    if not name:
        return None
    kind = next((kind for kind in KINDS if kind in tags), "other")
    assert kind != "ai-crawler" or name in PURPOSES, f"the purpose of {name} is not known here"
    return Bot(name, kind, PURPOSES.get(name))


def robots_of(text: str) -> RobotFileParser:
    """The rules of a robots.txt, as the standard library reads them."""
    rules = RobotFileParser()
    rules.parse(text.splitlines())
    return rules


def forbidden(rules: RobotFileParser, agent: str, target: str) -> bool | None:
    """Whether robots.txt forbids a target to a bot; None for people. /robots.txt itself is always allowed."""
    bot = bot_of(agent)
    if bot is None:
        return None
    if not target.startswith("/") or target.split("?")[0] == "/robots.txt":
        return False
    return not rules.can_fetch(bot.name, f"http://site{target}")


@cache
def _crawlers() -> list[tuple[re.Pattern[str], list[str]]]:
    data = crawleruseragents.CRAWLER_USER_AGENTS_DATA
    listed = [(re.compile(each["pattern"]), each.get("tags", [])) for each in data]
    return [each for each in _own_crawlers() if "person" not in each[1]] + listed


@cache
def _own_crawlers() -> list[tuple[re.Pattern[str], list[str]]]:
    lines = (_DIRECTORY / "bots_own.tsv").read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(re.compile(each[0]), each[1].split(",")) for each in cells if each[1]]


class Origin(NamedTuple):
    """`host` and `source` are empty where there is none; what is None is NULL in the table."""

    channel: str
    source: str
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    utm_term: str | None
    utm_content: str | None
    click_id: str | None


def parameters(query: str) -> Iterator[tuple[str, str]]:
    for part in re.split("[&;#]", query.replace("&amp;", "&")):
        name, _, value = part.partition("=")
        yield _unquoted(name), _unquoted(value)


def _unquoted(text: str) -> str:
    text = unquote_plus(text, errors="surrogateescape")
    return re.sub("[\udc80-\udcff]", lambda byte: f"\\x{ord(byte[0]) & 0xFF:02X}", text)


def search_term(query: str) -> str | None:
    result = list(parameters(query))
    for wanted in SEARCH_PARAMETERS:
        for name, value in result:
            if name == wanted and value.strip():
                return value[:MOST]
    return None


def origin(referrer: str, query: str, own: Collection[str] = ()) -> Origin:
    """The channel and source of a line; `own` are the hosts of its site and of the line."""
    result = list(parameters(query))

    def tag(name: str) -> str | None:
        value = next((value for key, value in result if key == name), "")
        return value[:MOST] or None

    tags = [tag(f"utm_{name}") for name in ("source", "medium", "campaign", "term", "content")]
    clicked = next(
        (each for each in CLICK_IDS if any(key == each[0] and value for key, value in result)), None
    )
    host = host_of(referrer)
    utm_source, medium = ((each or "").strip().lower() for each in tags[:2])
    campaign = (tags[2] or "").lower()
    source, category = host, _listed(host)[1]
    if host and _listed(host)[0]:
        source = _listed(host)[0]
    if clicked:
        source, category = _listed(clicked[2])
    if utm_source:
        source, category = utm_source, _category_of_name(utm_source)
    channel = _channel(
        source,
        category,
        medium,
        campaign,
        clicked[1] if clicked else "",
        host in {_bare(each) for each in own},
    )
    return Origin(channel, source, *tags, clicked[0] if clicked else None)


def _channel(source: str, category: str, medium: str, campaign: str, clicked: str, internal: bool) -> str:
    paid = re.match(r"^(.*cp.*|ppc|retargeting|paid.*)$", medium) is not None
    shopping = (
        category == "shopping" or re.match(r"^(.*(([^a-df-z]|^)shop|shopping).*)$", campaign) is not None
    )
    mails = ("email", "e-mail", "e_mail", "e mail", "newsletter")
    socials = ("social", "social-network", "social-media", "sm", "social network", "social media")
    rules = (
        ("cross-network", "cross-network" in campaign),
        ("paid shopping", shopping and paid),
        ("paid search", (category == "search" and paid) or clicked == "search"),
        ("paid social", (category == "social" and paid) or clicked == "social"),
        ("paid video", category == "video" and paid),
        ("display", medium in ("display", "banner", "expandable", "interstitial", "cpm")),
        ("paid other", paid),
        ("organic shopping", shopping),
        ("organic social", category == "social" or medium in socials),
        ("organic video", category == "video" or "video" in medium),
        ("ai assistants", category == "ai"),
        ("organic search", category == "search" or medium == "organic"),
        ("email", category == "mail" or source in mails or medium in mails),
        ("affiliates", medium == "affiliate"),
        ("audio", medium == "audio"),
        ("sms", source == "sms" or medium == "sms"),
        (
            "mobile push",
            medium.endswith("push") or "mobile" in medium or "notification" in medium or source == "firebase",
        ),
        ("internal", internal),
        ("referral", source not in ("", "(direct)") or medium in ("referral", "app", "link")),
    )
    return next((name for name, holds in rules if holds), "direct")


def host_of(referrer: str) -> str:
    # A name is a host without a scheme, too, and behind a single slash.
    if re.match(r"(https?:/)?([a-z0-9-]+\.)+[a-z][a-z0-9-]+\.?(:\d+)?([/?#]|$)", referrer.lower()):
        referrer = "//" + re.sub("^https?:/", "", referrer.lower())
    if not re.match(r"(https?:|android-app:)?//(?!https?:)", referrer.lower()):
        return ""
    try:
        host = _bare(urlsplit(referrer).hostname or "")
    except ValueError:
        return ""
    return "" if re.search(r"[\s,%]", host) else host


def _bare(host: str) -> str:
    return host.lower().removesuffix(".").removeprefix("www.")


def _category_of_name(name: str) -> str:
    by_name = _lists()[1]
    return by_name[name] if name in by_name else _listed(_bare(name))[1] if "." in name else ""


@cache
def _listed(host: str) -> tuple[str, str]:
    """Name in lower case and category of the longest listed suffix of a host; empty if there is none."""
    by_host = _lists()[0]
    labels = host.split(".")
    for first in range(len(labels)):
        suffix = ".".join(labels[first:])
        # A country is a label of two letters, and maybe one before it, as in co.uk.
        country = re.sub(r"\.((com|co|org|net|it|edu)\.)?[a-z]{2}$", ".{}", suffix)
        shorter = re.sub(r"\.[a-z]{2}$", ".{}", suffix)
        for written in (suffix, country, shorter):
            if written in by_host:
                return by_host[written]
    return "", ""


@cache
def _lists() -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """(name, category) by host, and category by name; own entries win."""
    by_host: dict[str, tuple[str, str]] = {}
    by_name: dict[str, str] = {}
    aliases: dict[str, str] = {}
    for file in ("sources_matomo.tsv", "sources_own.tsv"):
        named: dict[str, str] = {}
        for line in (_DIRECTORY / file).read_text(encoding="utf-8").splitlines():
            if not line or line.startswith("#"):
                continue
            category, name, key = line.split("\t")
            category = "" if category == "other" else category
            # Names such as "tw" are no hosts, though some are top-level domains.
            if "." in key:
                by_host[key] = (name.lower(), category)
            else:
                aliases[key] = category
            if category:
                named.setdefault(name.lower(), category)
        by_name |= named
    return by_host, by_name | aliases


@cache
def bucket(micros: int, alpha: Fraction) -> int:
    """The latency bucket: 0 below a microsecond, else ceil(ln d / ln γ), exactly."""
    if micros < 1:
        return 0
    ratio = (1 + alpha) / (1 - alpha)
    near = math.ceil(math.log(micros) / math.log(ratio))
    return next(b for b in (near - 1, near, near + 1) if b >= 0 and micros <= ratio**b)
