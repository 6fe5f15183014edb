"""Browser, operating system, device class and bot of a user agent, by maintained pattern lists."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.metadata import version
from typing import NamedTuple

from ua_parser import parse

from tidemark.parse import bots
from tidemark.parse.bots import Bot
from tidemark.parse.lists import version_of

_MOBILE = re.compile(r"Mobi|iPhone|iPod|Windows Phone|Opera Mini")
# "Tablet PC" is a part of Windows, on desktops too.
_TABLET = re.compile(r"iPad|Tablet(?! PC)|Kindle|Silk/|PlayBook")
# Only the beginning of a user agent is searched. Real ones have a few hundred characters, and each pattern takes time
# for every further one.
MOST_CHARACTERS = 1_000


class Agent(NamedTuple):
    """`browser` and `os` are families such as "Firefox" and "Windows"; `device` is desktop, mobile,
    tablet, bot or other; `bot` is None for a person."""

    browser: str
    os: str
    device: str
    bot: Bot | None


@cache
def rules_version() -> str:
    """Versions of the pattern lists."""
    devices = version_of(_MOBILE.pattern, _TABLET.pattern, MOST_CHARACTERS)
    return f"ua-parser {version('ua-parser-builtins')}-{devices}, {bots.rules_version()}"


def describe(user_agent: str) -> Agent:
    """The agent behind a User-Agent header, by its first MOST_CHARACTERS; an empty one is an unknown agent, not a
    bot."""
    return _described(user_agent[:MOST_CHARACTERS])


# A worker sees the same few thousand agents repeatedly; parsing one takes about a millisecond.
@lru_cache(maxsize=50_000)
def _described(user_agent: str) -> Agent:
    if not user_agent:
        return Agent("Other", "Other", "other", None)
    result = parse(user_agent)
    browser = result.user_agent.family if result.user_agent else "Other"
    os = result.os.family if result.os else "Other"
    bot = bots.bot_of(user_agent)
    return Agent(browser, os, "bot" if bot else _device(user_agent, os), bot)


def _device(user_agent: str, os: str) -> str:
    # The word "Mobile" distinguishes Android phones from tablets, by Google's guide.
    if _TABLET.search(user_agent) or (os == "Android" and "Mobile" not in user_agent):
        return "tablet"
    if _MOBILE.search(user_agent) or os in ("Android", "iOS"):
        return "mobile"
    return "desktop" if os != "Other" else "other"
