"""Name, kind and purpose of a declared bot: the package crawler-user-agents, own entries in bots_own.tsv, and what
calls itself a bot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.metadata import version
from typing import NamedTuple

import crawleruseragents
from ua_parser.core import Domain
from ua_parser.matchers import UserAgentMatcher
from ua_parser.regex import Resolver

from tidemark.parse.lists import rows, version_of

# The first of a bot's tags in this order is its kind.
KINDS = (
    "ai-crawler", "search-engine", "scanner", "seo", "monitoring", "social-preview", "feed-reader", "archiver",
    "academic", "advertising", "http-library", "browser-automation",
)  # fmt: skip
OTHER_KIND = "other"
# Of a bot whose address is not among those that its operator publishes.
FORGED_KIND = "forged"
# The tag of what is no bot.
PERSON = "person"
PURPOSES = ("training", "search", "assistant")
# An agent that calls itself a bot, with its version: `FooBot/1.0`, `foo-spider/2`. Names of the lists go before.
_SELF_DECLARED = re.compile(r"[\w.-]*(?:[Bb]ot|BOT|[Cc]rawler|[Ss]pider)/v?\d")
# A pattern without any sign that has a meaning, but escaped ones.
_PLAIN = re.compile(r"(?:[^\\.^$*+?{}\[\]|()]|\\[^\w\s])+")

Find = Callable[[str], str]


class Bot(NamedTuple):
    """`name` is the matched text, `kind` one of KINDS or "other", `ai_purpose` one of PURPOSES or None."""

    name: str
    kind: str
    ai_purpose: str | None


@cache
def rules_version() -> str:
    """Versions of the list of crawlers and of the own entries."""
    return f"crawlers {version('crawler-user-agents')}-{version_of(_own(), KINDS, _SELF_DECLARED.pattern)}"


def bot_of(user_agent: str) -> Bot | None:
    """The bot behind a User-Agent header; None for a person. The longest match decides, then the order: own entries,
    then those of the package, then what it calls itself."""
    if not _any_pattern()(user_agent):
        return None
    declared = _people().sub(" ", user_agent)
    name, tags = "", list[str]()
    for find, tags_of_pattern in _patterns():
        match = find(declared)
        if len(match) > len(name):
            name, tags = match, tags_of_pattern
    if not name:
        name = _matched(_SELF_DECLARED, declared).partition("/")[0]
    if not name:
        return None
    name = name.strip("/ ")
    return Bot(name, kind_of(tags), purpose_by_name().get(name.lower()))


def kind_of(tags: list[str]) -> str:
    """The kind of a bot with these tags."""
    return next((kind for kind in KINDS if kind in tags), OTHER_KIND)


@cache
def purpose_by_name() -> dict[str, str]:
    """The purpose of each AI company's bot, by its name in lower case."""
    return {pattern.lower(): purpose for pattern, _, purpose in _own() if purpose}


@cache
def _own() -> list[tuple[str, list[str], str]]:
    """Pattern, tags and purpose of the own entries."""
    cells = [(*row, "", "")[:3] for row in rows("bots_own.tsv")]
    return [(pattern, tags.split(",") if tags else [], purpose) for pattern, tags, purpose in cells]


@cache
def _bots() -> list[tuple[str, list[str]]]:
    """Pattern and tags of all bots, own entries first."""
    own = [(pattern, tags) for pattern, tags, _ in _own() if tags and PERSON not in tags]
    listed = crawleruseragents.CRAWLER_USER_AGENTS_DATA
    return [*own, *((each["pattern"], each.get("tags", [])) for each in listed)]


@cache
def _people() -> re.Pattern[str]:
    return re.compile("|".join(pattern for pattern, tags, _ in _own() if PERSON in tags))


@cache
def _any_pattern() -> Callable[[str], str | None]:
    """Finds a bot in a user agent if any pattern matches."""
    return first_of((pattern, "bot") for pattern in (*(each for each, _ in _bots()), _SELF_DECLARED.pattern))


@cache
def _patterns() -> list[tuple[Find, list[str]]]:
    """Functions that return the first text that a pattern matches, empty if there is none, and the bot's tags."""
    return [(_find_of(pattern), tags) for pattern, tags in _bots()]


def _find_of(pattern: str) -> Find:
    # Most patterns are plain text, of which a search takes a fraction, and which need not be compiled.
    text = pattern.removeprefix("^")
    if _PLAIN.fullmatch(text):
        name = re.sub(r"\\(.)", r"\1", text)
        if text == pattern:
            return lambda user_agent: name if name in user_agent else ""
        return lambda user_agent: name if user_agent.startswith(name) else ""
    return partial(_matched, re.compile(pattern))


def _matched(pattern: re.Pattern[str], user_agent: str) -> str:
    match = pattern.search(user_agent)
    return match[0] if match else ""


def first_of(patterns: Iterable[tuple[str, str]]) -> Callable[[str], str | None]:
    """A function that returns the name of the first pattern that matches a user agent; None if none does. A pattern
    comes with its name, and has no look-around.

    The matcher of ua-parser, in Rust, looks for letters that all matches have first: a search with Python's expressions
    takes several to a hundred times as long.
    """
    resolve = Resolver(([UserAgentMatcher(pattern, name) for pattern, name in patterns], [], []))

    def find(user_agent: str) -> str | None:
        match = resolve(user_agent, Domain.USER_AGENT).user_agent
        return match.family if match else None

    return find
