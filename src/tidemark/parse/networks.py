"""Networks of operators: CDNs, relays, crawlers, hosting, and private networks; and which of them an address is in.

`network_lists/` has a file per list. Its first line has the kind, the day of the data, its source and licence, and the
names of the bots that come from these networks; then follows one network per line. `scripts/networks.py` renews them.
A home may have newer files (`tidemark.parse.newer`), which replace those of the same name.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.resources import files
from ipaddress import ip_network
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.engine.arrays import Flags
from tidemark.errors import InputError, SettingError

# Of lists with the same network, the one of the later kind has its addresses.
KINDS = ("hosting", "cdn", "crawler", "relay", "private")
# The kinds that say where an address is; `private` says nothing about that.
PUBLIC_KINDS = KINDS[:-1]
# Proxies that hand on the address of their client, as kinds of lists.
AUTO = ("private", "cdn")
VERIFIED, FORGED = "verified", "forged"

# Bytes of an address, IPv4 and IPv6.
_BYTES = (4, 16)

Numbers = np.ndarray[Any, np.dtype[np.int64]]
# Names and texts of a home's own files.
Own = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class NetworkList:
    """Networks of an operator. `date`: the day of the data, `source`: where the operator publishes it, `bots`: the
    names, in lower case, of the bots that come from these networks."""

    name: str
    kind: str
    date: str
    source: str
    licence: str
    bots: frozenset[str]
    networks: tuple[str, ...]


@dataclass(frozen=True)
class Networks:
    """Networks with numbers, flattened per family of addresses (IPv4, IPv6): from `starts[i]` up to the next start
    addresses have the number `numbers[i]`, that of the longest prefix, -1 without a network."""

    starts: tuple[np.ndarray[Any, Any], ...]
    numbers: tuple[Numbers, ...]

    @staticmethod
    def of(networks: Iterable[tuple[str, int]]) -> Networks:
        """Of texts such as 192.0.2.0/24, with numbers from 0. Of equal networks the highest number wins."""
        ranges: tuple[list[tuple[int, int, int]], ...] = ([], [])
        for text, number in networks:
            address, _, bits = text.partition("/")
            six = ":" in address
            ranges[six].append((int.from_bytes(_packed(address), "big"), int(bits), number))
        flat = [_flattened(each, 8 * size) for each, size in zip(ranges, _BYTES, strict=True)]
        return Networks(
            tuple(
                _comparable([s.to_bytes(n, "big") for s in each], n)
                for each, n in zip(flat, _BYTES, strict=True)
            ),
            tuple(np.array(list(each.values()), np.int64) for each in flat),
        )

    def lookup(self, addresses: Sequence[str | None]) -> Numbers:
        """The number of each address; -1 for one in no network, and for what is no address."""
        packed = [_packed(address) for address in addresses]
        sizes = np.fromiter(map(len, packed), np.int64, len(packed))
        entries = np.full(len(packed), -1, np.int64)
        for size, starts, numbers in zip(_BYTES, self.starts, self.numbers, strict=True):
            rows = np.flatnonzero(sizes == size)
            if len(rows):
                wanted = _comparable([packed[row] for row in rows.tolist()], size)
                entries[rows] = numbers[np.searchsorted(starts, wanted, "right") - 1]
        return entries


def _flattened(ranges: list[tuple[int, int, int]], most: int) -> dict[int, int]:
    """The number from each start on, of networks as first address, length of the prefix and number."""
    by_start: dict[int, int] = {0: -1}
    open_: list[tuple[int, int]] = []

    def close(before: int) -> None:
        while open_ and open_[-1][0] < before:
            end, _ = open_.pop()
            by_start[end + 1] = open_[-1][1] if open_ else -1

    for start, bits, number in sorted(ranges):
        close(start)
        by_start[start] = number
        open_.append((start + (1 << most - bits) - 1, number))
    close(1 << most)
    by_start.pop(1 << most, None)
    return by_start


def _comparable(packed: Sequence[bytes], size: int) -> np.ndarray[Any, Any]:
    """Packed addresses of one family as values that are quick to compare: numbers, or bytes of a fixed length."""
    joined = b"".join(packed)
    return (
        np.frombuffer(joined, ">u4").astype(np.uint32) if size == _BYTES[0] else np.frombuffer(joined, "S16")
    )


@dataclass(frozen=True)
class Trust:
    """Networks whose proxies tell the truth about their clients: those `given`, and the lists of these numbers."""

    given: Networks
    lists: frozenset[int]
    own: Own = ()

    @staticmethod
    @lru_cache(maxsize=1_000)
    def of(entries: tuple[str, ...], own: Own = ()) -> Trust:
        """By networks, addresses, and names or kinds of lists; `auto` stands for AUTO. Raises SettingError."""
        given, named = [], set[int]()
        for entry in entries:
            names = AUTO if entry == "auto" else (entry,)
            numbers = {number for number, each in enumerate(lists(own)) if {each.name, each.kind} & {*names}}
            named |= numbers
            if not numbers:
                given.append((_network(entry, own), 0))
        return Trust(Networks.of(given), frozenset(named), own)

    def trusts(self, addresses: pa.Array) -> Flags:
        """Which addresses are in these networks. An address in two lists is in that of the longest prefix: Apple's
        relays are in networks of Cloudflare, and their users could otherwise pretend any address."""
        coded = addresses.dictionary_encode(null_encoding="encode")
        values = coded.dictionary.to_pylist()
        trusted = np.isin(_all(self.own).lookup(values), list(self.lists)) | (self.given.lookup(values) >= 0)
        flags: Flags = trusted[coded.indices.to_numpy()]
        return flags


@lru_cache(maxsize=8)
def lists(own: Own = ()) -> tuple[NetworkList, ...]:
    """All lists, in the order of KINDS. Raises InputError for an own file that is no list."""
    every = [list_of(name, text) for name, text in _texts(own)]
    return tuple(sorted(every, key=lambda each: (KINDS.index(each.kind), each.name)))


def list_of(name: str, text: str) -> NetworkList:
    """The list in a file. Raises InputError if its first line is none of a list."""
    header, *networks = text.splitlines() or [""]
    cells = header.removeprefix("# ").split("\t")
    if len(cells) not in (4, 5) or cells[0] not in KINDS or not re.fullmatch(r"\d{4}-\d\d-\d\d", cells[1]):
        raise InputError(
            f"{name} is no list of networks: its first line is {header[:80]!r}",
            f"Begin with `# `, then kind ({', '.join(KINDS)}), date, source, licence, and maybe bots, with tabs.",
        )
    kind, date, source, licence, bots = [*cells, ""][:5]
    return NetworkList(name, kind, date, source, licence, frozenset(bots.split(",")) - {""}, tuple(networks))


@lru_cache(maxsize=8)
def version(own: Own = ()) -> str:
    """The day of the newest list, and a hash that changes with the content of any."""
    digest = blake2b("\0".join(part for each in _texts(own) for part in each).encode(), digest_size=4)
    return f"{max(each.date for each in lists(own))}-{digest.hexdigest()}"


def lists_of(addresses: Sequence[str | None], own: Own = ()) -> list[NetworkList | None]:
    """The list that has each address, by the longest prefix; None for an address of no list."""
    every = lists(own)
    return [every[number] if number >= 0 else None for number in _all(own).lookup(addresses).tolist()]


def kinds_of(addresses: Sequence[str | None], own: Own = ()) -> list[str | None]:
    """The kind of the network of each address, one of PUBLIC_KINDS, by the longest prefix; else None."""
    kinds = [each.kind if each.kind in PUBLIC_KINDS else None for each in lists(own)] + [None]
    return [kinds[number] for number in _all(own).lookup(addresses).tolist()]


def verified(bots: Sequence[str | None], addresses: Sequence[str | None], own: Own = ()) -> list[str | None]:
    """For the name of each bot and its address: VERIFIED if the address is in a network that the bot's operator
    publishes for it, else FORGED; None if nobody publishes any, and without an address."""
    groups, networks = _published(own)
    group = np.array([groups.get(bot.lower(), -1) if bot else -1 for bot in bots], np.int64)
    result: list[str | None] = [None] * len(bots)
    for number in np.unique(group[group >= 0]).tolist():
        rows = np.flatnonzero(group == number).tolist()
        looked_up = [addresses[row] for row in rows]
        for row, address, inside in zip(
            rows, looked_up, networks[number].lookup(looked_up) >= 0, strict=True
        ):
            result[row] = VERIFIED if inside else FORGED if _packed(address) else None
    return result


def verifiable(bot: str, own: Own = ()) -> bool:
    """Whether the operator of a bot publishes its networks."""
    return bot.lower() in _published(own)[0]


def published(bot: str, own: Own = ()) -> list[str]:
    """The networks that the operator of a bot publishes for it."""
    return [text for each in lists(own) if bot.lower() in each.bots for text in each.networks]


@lru_cache(maxsize=8)
def _published(own: Own) -> tuple[dict[str, int], list[Networks]]:
    """By the name of a bot, the number of the networks of all lists that name it; and these networks."""
    of_bots: dict[str, list[NetworkList]] = {}
    for each in lists(own):
        for bot in each.bots:
            of_bots.setdefault(bot, []).append(each)
    numbers = {names: number for number, names in enumerate(dict.fromkeys(map(tuple, of_bots.values())))}
    networks = [Networks.of((text, 0) for each in some for text in each.networks) for some in numbers]
    return {bot: numbers[tuple(some)] for bot, some in of_bots.items()}, networks


@lru_cache(maxsize=8)
def _all(own: Own = ()) -> Networks:
    return Networks.of((text, number) for number, each in enumerate(lists(own)) for text in each.networks)


@lru_cache(maxsize=8)
def _texts(own: Own = ()) -> tuple[tuple[str, str], ...]:
    """Names and texts of all files, in the order of names."""
    return tuple(sorted({**dict(_installed()), **dict(own)}.items()))


@cache
def _installed() -> tuple[tuple[str, str], ...]:
    folder = files("tidemark.parse") / "network_lists"
    return tuple(
        (path.name.removesuffix(".tsv"), path.read_text(encoding="utf-8"))
        for path in folder.iterdir()
        if path.name.endswith(".tsv")
    )


def _network(text: str, own: Own) -> str:
    try:
        return str(ip_network(text, strict=False))
    except ValueError as error:
        names = ", ".join(["auto", *KINDS, *(each.name for each in lists(own) if each.name not in KINDS)])
        raise SettingError(
            f"{text!r} of trusted_proxies is no network", f"Use one such as 10.0.0.0/8, or one of {names}."
        ) from error


def _packed(address: str | None) -> bytes:
    """Bytes in the order of addresses; none for what is no address."""
    if address is None:
        return b""
    try:
        if ":" in address:
            return socket.inet_pton(socket.AF_INET6, address)
        return socket.inet_pton(socket.AF_INET, address)
    except (OSError, ValueError):
        return b""
