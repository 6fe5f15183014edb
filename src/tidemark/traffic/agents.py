"""User agents of people and of bots, with their weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidemark.parse.lists import rows

_WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
_WINDOWS = "Windows NT 10.0; Win64; x64"
_MAC = "Macintosh; Intel Mac OS X 10_15_7"
_LINUX = "X11; Linux x86_64"
_IPHONE = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
# A newer version has more users than an older one.
_CHROME = (("143", 6), ("142", 4), ("141", 2), ("139", 1))
_FIREFOX = (("145.0", 4), ("144.0", 2), ("140.0", 1))
_SAFARI = (("26.1", 4), ("18.6", 3), ("17.6", 2), ("16.6", 1))

Weighted = tuple[str, float]


def people() -> list[Weighted]:
    """(user agent, weight) of browsers on desktops, phones and tablets, as written in a log line.

    A few contain characters that servers escape: quotes and bytes above 127.
    """
    return [*_desktop(), *_phones(), *_tablets(), *_odd()]


def _desktop() -> Iterator[Weighted]:
    for version, weight in _CHROME:
        chrome = f"{_WEBKIT} Chrome/{version}.0.0.0 Safari/537.36"
        for platform, share in (
            (_WINDOWS, 6.0),
            (_MAC, 2.0),
            (_LINUX, 0.6),
            ("X11; CrOS x86_64 14541.0.0", 0.3),
        ):
            yield f"Mozilla/5.0 ({platform}) {chrome}", weight * share
        for platform, share in ((_WINDOWS, 2.0), (_MAC, 0.3)):
            yield f"Mozilla/5.0 ({platform}) {chrome} Edg/{version}.0.0.0", weight * share
        yield f"Mozilla/5.0 ({_WINDOWS}) {chrome} OPR/{int(version) - 16}.0.0.0", weight * 0.4
    for version, weight in _FIREFOX:
        for platform, share in ((_WINDOWS, 2.0), ("Macintosh; Intel Mac OS X 10.15", 0.7), (_LINUX, 0.7)):
            yield f"Mozilla/5.0 ({platform}; rv:{version}) Gecko/20100101 Firefox/{version}", weight * share
    for version, weight in _SAFARI:
        yield f"Mozilla/5.0 ({_MAC}) {_IPHONE} Version/{version} Safari/605.1.15", weight * 1.5


def _phones() -> Iterator[Weighted]:
    for version, weight in _CHROME:
        chrome = f"{_WEBKIT} Chrome/{version}.0.0.0 Mobile Safari/537.36"
        for device, share in (
            ("10; K", 6.0),
            ("15; Pixel 9", 0.5),
            ("14; SM-S921B", 0.8),
            ("13; 2201117TG", 0.6),
        ):
            yield f"Mozilla/5.0 (Linux; Android {device}) {chrome}", weight * share
    for version, weight in (("29.0", 3), ("28.0", 1)):
        engine = f"{_WEBKIT} SamsungBrowser/{version} Chrome/136.0.0.0 Mobile Safari/537.36"
        yield f"Mozilla/5.0 (Linux; Android 10; K) {engine}", weight * 1.0
    for version, weight in _SAFARI:
        phone = (
            f"iPhone; CPU iPhone OS {'18_7' if version > '18' else version.replace('.', '_')} like Mac OS X"
        )
        yield f"Mozilla/5.0 ({phone}) {_IPHONE} Version/{version} Mobile/15E148 Safari/604.1", weight * 6.0
        yield f"Mozilla/5.0 ({phone}) {_IPHONE} CriOS/143.0.7499.92 Mobile/15E148 Safari/604.1", weight * 1.0
    for version, weight in _FIREFOX:
        yield (
            f"Mozilla/5.0 (Android 15; Mobile; rv:{version}) Gecko/{version} Firefox/{version}",
            weight * 0.5,
        )


def _tablets() -> Iterator[Weighted]:
    for version, weight in _SAFARI:
        pad = f"iPad; CPU OS {'18_7' if version > '18' else version.replace('.', '_')} like Mac OS X"
        yield f"Mozilla/5.0 ({pad}) {_IPHONE} Version/{version} Mobile/15E148 Safari/604.1", weight * 0.5
    for version, weight in _CHROME:
        for device, share in (("14; SM-X210", 0.5), ("13; Lenovo TB-J606F", 0.3)):
            agent = f"Mozilla/5.0 (Linux; Android {device}) {_WEBKIT} Chrome/{version}.0.0.0 Safari/537.36"
            yield agent, weight * share


def _odd() -> Iterator[Weighted]:
    chrome = f"{_WEBKIT} Chrome/141.0.0.0"
    yield rf"Mozilla/5.0 (Linux; Android 14; \"Redmi\" Note 13) {chrome} Mobile Safari/537.36", 0.6
    yield rf"Mozilla/5.0 (Linux; Android 12; T\xc3\xa9l\xc3\xa9 X1) {chrome} Mobile Safari/537.36", 0.4
    yield rf"Mozilla/5.0 ({_WINDOWS}) {chrome} Safari/537.36 \"Kiosk \\ 7\"", 0.2


class Bot(NamedTuple):
    """A declared bot: user agent, weight among those of its manner, and what the list of crawlers says of it.

    `name` is empty for a program that sends no user agent, which no list can name. `purpose` is that of an AI company's
    bot: training, search or assistant.
    """

    agent: str
    weight: float
    name: str = ""
    kind: str = ""
    purpose: str = ""


def _bots() -> dict[str, list[Bot]]:
    bots: dict[str, list[Bot]] = {}
    for manner, agent, weight, *said in rows("bots.tsv", "tidemark.traffic"):
        bots.setdefault(manner, []).append(Bot(agent, int(weight), *said))
    return bots


# By manner.
BOTS = _bots()
