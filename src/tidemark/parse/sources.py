"""Sources of visits: the list of search engines, social networks, AI assistants, mail, video and shopping."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tidemark.parse.lists import rows, version_of
from tidemark.parse.remembered import remembered
from tidemark.parse.values import canonical_address

# A later file's entry wins.
_FILES = ("sources_matomo.tsv", "sources_own.tsv")
# Labels that stand between a name and a country, as in google.co.uk.
_SECOND_LEVEL = ("com", "co", "org", "net", "it", "edu")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")
# Schemes of addresses with a host. Some clients leave the scheme out.
_SCHEMES = ("http", "https", "android-app", "")
# An address without a scheme or with one slash behind it. Its host must be a name: numbers may be a version.
_NO_SCHEME = re.compile(r"(?i)(?:https?:/)?((?:[\w-]+\.)+[^\W\d_][\w-]+\.?(?::\d+)?(?:[/?#].*)?)", re.DOTALL)
# ASCII characters that a host cannot have, and white space.
_NO_HOST = re.compile(r"[\x00-,/;-@\[-^`{-\x7f\s]")


class Source(NamedTuple):
    """`name` in lower case; `category` is search, social, ai, mail, video or shopping, empty for other sites."""

    name: str
    category: str


@cache
def version() -> str:
    """Changes with the content of the list."""
    return version_of(_entries(), _SECOND_LEVEL)


@remembered(100_000)
def source_of_host(host: str) -> Source:
    """The source behind a host, by the longest suffix of whole labels that is in the list; without one, the host."""
    labels = host.split(".")
    for first in range(max(len(labels) - _most_labels(), 0), len(labels)):
        for suffix in _written(labels[first:]):
            if suffix in _by_host():
                return _by_host()[suffix]
    return Source(host, "")


def ai_operators() -> dict[str, dict[str, str]]:
    """The operators of AI products, whose bots crawl and whose assistants send visits: as `bots` by their names in
    lower case, and as `sources` by the names, hosts and aliases under which silver.requests may have them."""
    bots: dict[str, str] = {}
    products: dict[str, str] = {}
    for operator, crawlers, sold in rows("ai_operators.tsv"):
        bots |= dict.fromkeys(filter(None, crawlers.split(",")), operator)
        products |= dict.fromkeys(filter(None, sold.lower().split(",")), operator)
    assistants = [(key, source.name) for key, source in _entries() if source.category == "ai"]
    names = {name: name for _, name in assistants} | dict(assistants)
    return {
        "bots": bots,
        "sources": {key: products.get(name, name.capitalize()) for key, name in names.items()},
    }


def category_of_name(name: str) -> str:
    """The category of a source as `utm_source` has it, in lower case: a name, a host or an address."""
    name = name.strip(" /")
    source = _by_name().get(name)
    if source is not None or "." not in name:
        return source or ""
    host = host_of(name)
    return source_of_host(host).category if host else ""


@remembered(100_000)
def host_of(referrer: str) -> str | None:
    """The host of a referring address or the package of an app, in lower case, without `www.`; None if there is
    none."""
    try:
        address = urlsplit(referrer)
        host = bare(address.hostname or "")
    except ValueError:  # for example an unclosed bracket of an IPv6 address
        return None
    if not host:
        named = _NO_SCHEME.fullmatch(referrer)
        return host_of(f"//{named[1]}") if named else None
    # A scheme in place of the host is of an address that has two.
    if address.scheme not in _SCHEMES or host in _SCHEMES or _NO_HOST.search(_unescaped(host)):
        return None
    return host


def bare(host: str) -> str:
    """A host in lower case, without `www.` and without the dot of the root."""
    return host.lower().removesuffix(".").removeprefix("www.")


@remembered(100_000)
def comparable(host: str) -> str:
    """A host as own hosts are compared: `bare`, an IPv6 address in its canonical form without brackets, and an
    international name in its ASCII form. Such a name may be written in either form, percent-encoded, or with the
    escapes of servers (`\\xc3`)."""
    plain = _unescaped(bare(host).strip("[]"))
    if ":" in plain:
        return canonical_address(plain) or plain
    if plain.isascii():
        return plain
    # Its tables take time to load, and most logs need none of them.
    import idna

    try:
        return idna.encode(plain, uts46=True).decode()
    except idna.IDNAError:
        return plain


def _unescaped(host: str) -> str:
    return unquote(_ESCAPE.sub(r"%\1", host)).lower() if "%" in host or "\\x" in host else host


def _written(labels: list[str]) -> Iterator[str]:
    """How a host with these labels can stand in the list: itself, or with {} for its country."""
    yield ".".join(labels)
    if len(labels) > 1 and len(labels[-1]) == 2:
        yield ".".join([*labels[:-1], "{}"])
        if len(labels) > 2 and labels[-2] in _SECOND_LEVEL:
            yield ".".join([*labels[:-2], "{}"])


@cache
def _by_host() -> dict[str, Source]:
    return {key: source for key, source in _entries() if "." in key}


@cache
def _most_labels() -> int:
    return max(key.count(".") for key in _by_host()) + 1


@cache
def _by_name() -> dict[str, str]:
    """Category by what `utm_source` may say: the sources' names, and other names that the list has for them."""
    named = {source.name: source.category for _, source in _entries() if source.category}
    return named | {key: source.category for key, source in _entries() if "." not in key}


@cache
def _entries() -> list[tuple[str, Source]]:
    return [
        (key, Source(name.lower(), "" if category == "other" else category))
        for file in _FILES
        for category, name, key in rows(file)
    ]
