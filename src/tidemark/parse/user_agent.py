"""Browser, operating system, device class and bot of a user agent, by maintained pattern lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.metadata import version
from typing import NamedTuple

from ua_parser import parse

from tidemark.parse import bots
from tidemark.parse.bots import Bot, first_of
from tidemark.parse.lists import version_of

# The device of an agent is the first that matches.
_DEVICES = {
    # Televisions, consoles, headsets and watches, some of which also call themselves mobile, Android or Windows.
    "other": (
        r"(?:\b|_)TV(?:\b|_)|(?i:smart[-_]?tv|playstation|xbox)|HbbTV|GoogleTV|AppleTV|BRAVIA|\bAFT[A-Z]|CrKey|\bRoku"
        r"|NetCast|Web0S|Nintendo|OculusBrowser|\bVR Safari|watchOS"
    ),
    # "Tablet PC" is a part of Windows, on desktops too. An iPad that asks for pages for desktops poses as a Macintosh.
    "tablet": (
        r"iPad|Tablet(?:[^ ]| [^P]|$)|Kindle|Silk/|PlayBook|Macintosh.*(?:Mobile/|(?:Cri|Fx|Edg)iOS/)"
    ),
    "mobile": (
        r"Mobi|iPhone|iPod|Windows Phone|Opera Mini|MIDP|(?i:up\.browser)|WAP[- ]?Browser|MAUI|BlackBerry|Symbian"
        r"|SymbOS|BREW|Series ?60|\(Phone;|iPh\d"
    ),
}
# Browsers on Android are on a tablet without the word "Mobile", by Google's guide. Other apps never have that word, so
# only the model can be a tablet's.
_ANDROID_TABLET = re.compile(
    r"Safari/|Gecko/|\bSM-[TXP]\d|\bGT-[NP]\d|(?:Media|Mate)?Pad\b|\b[Tt][Aa][Bb]\b|Nexus (?:7|9|10)\b|\bKF[A-Z]{2,}"
    r"|Lenovo TB"
)
# Programs on a Mac whose system the list takes for iOS.
_MAC = re.compile(r"Darwin/\S+ \((?:x86_64|i386|Power%20Macintosh)\)")
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
    devices = version_of(_DEVICES, _ANDROID_TABLET.pattern, _MAC.pattern, MOST_CHARACTERS)
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
    os = _os(user_agent, result.os.family if result.os else "Other")
    bot = bots.bot_of(user_agent)
    return Agent(browser, os, "bot" if bot else _device(user_agent, os), bot)


def _os(user_agent: str, listed: str) -> str:
    if "OpenHarmony" in user_agent:
        return "HarmonyOS"
    return "Mac OS X" if listed == "iOS" and _MAC.search(user_agent) else listed


def _device(user_agent: str, os: str) -> str:
    if device := _devices()(user_agent):
        return device
    if os == "Android" or "FBAN/FB4A" in user_agent:
        return "tablet" if _ANDROID_TABLET.search(user_agent) else "mobile"
    if os == "iOS":
        return "mobile"
    return "desktop" if os != "Other" else "other"


@cache
def _devices() -> Callable[[str], str | None]:
    return first_of((pattern, device) for device, pattern in _DEVICES.items())
