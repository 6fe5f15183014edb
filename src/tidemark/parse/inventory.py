"""The data by which lines are enriched: what is installed, of which day, from where, under which licence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

import crawleruseragents

from tidemark.parse import mmdb, newer
from tidemark.parse.lists import comments, rows
from tidemark.parse.networks import NetworkList, lists
from tidemark.settings import Settings

INSTALLATION, HOME, SETTING = "installation", "home", "setting"
_OWN = {
    "own sources": "sources_own.tsv",
    "own bots": "bots_own.tsv",
    "AI operators": "ai_operators.tsv",
}
_MATOMO = re.compile(r"From (?P<source>\S+), commit \S+ of (?P<date>\d{4}-\d\d-\d\d)")


@dataclass(frozen=True)
class Data:
    """A list or a database. `date`: its day, or the version of its package; `entries`: None if it does not say how
    many it has; `where`: INSTALLATION, HOME or SETTING."""

    name: str
    kind: str
    date: str
    source: str
    licence: str
    entries: int | None
    where: str = INSTALLATION


def inventory(settings: Settings) -> list[Data]:
    """All data in use: lists of networks, databases, lists of bots and sources. Raises InputError for data of the home
    that cannot be read."""
    own = newer.own_networks(settings)
    names = {name for name, _ in own}
    networks = [of_list(each, HOME if each.name in names else INSTALLATION) for each in lists(own)]
    return [*networks, *_databases(settings), *_others()]


def of_list(each: NetworkList, where: str = HOME) -> Data:
    """A list of networks as data."""
    return Data(each.name, each.kind, each.date, each.source, each.licence, len(each.networks), where)


def of_database(path: str, setting: str, where: str = HOME) -> Data:
    """A database as data. Raises InputError."""
    metadata = mmdb.opened(path, setting).metadata()
    date = f"{datetime.fromtimestamp(metadata.build_epoch, UTC):%Y-%m-%d}"
    about = metadata.description.get("en", "") if metadata.description else ""
    name = f"{newer.KINDS[setting]} ({metadata.database_type})"
    return Data(name, "database", date, about, "as its publisher says", metadata.node_count, where)


def _databases(settings: Settings) -> Iterator[Data]:
    for setting in newer.DATABASES:
        path = newer.database(settings, setting)
        if path:
            yield of_database(path, setting, SETTING if getattr(settings.meaning, setting) else HOME)
        elif setting == "geo_database":
            yield Data("country (iptocc)", "database", version("iptocc"), "", "MIT OR Apache-2.0", None)


def _others() -> Iterator[Data]:
    crawlers = len(crawleruseragents.CRAWLER_USER_AGENTS_DATA)
    yield Data("bots (crawler-user-agents)", "list", version("crawler-user-agents"), "", "MIT", crawlers)
    yield Data("user agents (ua-parser)", "list", version("ua-parser-builtins"), "", "Apache-2.0", None)
    matomo = _MATOMO.search(comments("sources_matomo.tsv"))
    date, source = (matomo["date"], matomo["source"]) if matomo else ("", "")
    yield Data("sources", "list", date, source, "CC0-1.0", _entries("sources_matomo.tsv"))
    for name, file in _OWN.items():
        yield Data(name, "list", "", "", "Apache-2.0", _entries(file))


def _entries(file: str) -> int:
    return sum(1 for _ in rows(file))
