"""Networks of operators: CDNs, relays, crawlers, hosting, and private networks; and which of them an address is in.

`network_lists/` has a file per list: its kind, the day of the data and its source, then one network per line.
`scripts/networks.py` renews them.
"""

from __future__ import annotations

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
from tidemark.errors import SettingError

# Of lists with the same network, the one of the later kind has its addresses.
KINDS = ("hosting", "cdn", "crawler", "relay", "private")
# Proxies that hand on the address of their client, as kinds of lists.
AUTO = ("private", "cdn")

# The family of an address, then its bytes.
_BYTES = 17
_IPV4, _IPV6 = b"\x04", b"\x06"

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class NetworkList:
    """Networks of an operator. `date`: the day of the data, `source`: where the operator publishes it."""

    name: str
    kind: str
    date: str
    source: str
    networks: tuple[str, ...]


@dataclass(frozen=True)
class Networks:
    """Networks with numbers, flattened: packed addresses from `starts[i]` up to the next start have the number
    `numbers[i]`, that of the longest prefix, -1 without a network."""

    starts: np.ndarray[Any, Any]
    numbers: Numbers

    @staticmethod
    def of(networks: Iterable[tuple[str, int]]) -> Networks:
        """Of texts such as 192.0.2.0/24, with numbers from 0. Of equal networks the highest number wins."""
        by_start: dict[int, int] = {0: -1}
        open_: list[tuple[int, int]] = []

        def close(before: int) -> None:
            while open_ and open_[-1][0] < before:
                end, _ = open_.pop()
                by_start[end + 1] = open_[-1][1] if open_ else -1

        for start, bits, number in sorted((*_range(text), number) for text, number in networks):
            close(start)
            by_start[start] = number
            open_.append((start + (1 << 8 * _BYTES - bits) - 1, number))
        close(1 << 8 * _BYTES)
        starts = np.array([start.to_bytes(_BYTES, "big") for start in by_start], f"S{_BYTES}")
        return Networks(starts, np.array(list(by_start.values()), np.int64))

    def lookup(self, addresses: Sequence[str | None]) -> Numbers:
        """The number of each address; -1 for one in no network, and for what is no address."""
        packed = np.array([_packed(address) for address in addresses], f"S{_BYTES}")
        numbers: Numbers = self.numbers[np.searchsorted(self.starts, packed, "right") - 1]
        return numbers


@dataclass(frozen=True)
class Trust:
    """Networks whose proxies tell the truth about their clients: those `given`, and the lists of these numbers."""

    given: Networks
    lists: frozenset[int]

    @staticmethod
    @lru_cache(maxsize=1_000)
    def of(entries: tuple[str, ...]) -> Trust:
        """By networks, addresses, and names or kinds of lists; `auto` stands for AUTO. Raises SettingError."""
        given, named = [], set[int]()
        for entry in entries:
            names = AUTO if entry == "auto" else (entry,)
            numbers = {number for number, each in enumerate(lists()) if {each.name, each.kind} & {*names}}
            named |= numbers
            if not numbers:
                given.append((_network(entry), 0))
        return Trust(Networks.of(given), frozenset(named))

    def trusts(self, addresses: pa.Array) -> Flags:
        """Which addresses are in these networks. An address in two lists is in that of the longest prefix: Apple's
        relays are in networks of Cloudflare, and their users could otherwise pretend any address."""
        coded = addresses.dictionary_encode(null_encoding="encode")
        values = coded.dictionary.to_pylist()
        trusted = np.isin(_all().lookup(values), list(self.lists)) | (self.given.lookup(values) >= 0)
        flags: Flags = trusted[coded.indices.to_numpy()]
        return flags


@cache
def lists() -> tuple[NetworkList, ...]:
    """All lists, in the order of KINDS."""
    every = []
    for name, text in _texts():
        header, *networks = text.splitlines()
        kind, date, source = header.removeprefix("# ").split("\t")
        every.append(NetworkList(name, kind, date, source, tuple(networks)))
    return tuple(sorted(every, key=lambda each: (KINDS.index(each.kind), each.name)))


@cache
def version() -> str:
    """The day of the newest list, and a hash that changes with the content of any."""
    digest = blake2b("\0".join(part for each in _texts() for part in each).encode(), digest_size=4)
    return f"{max(each.date for each in lists())}-{digest.hexdigest()}"


def lists_of(addresses: Sequence[str | None]) -> list[NetworkList | None]:
    """The list that has each address, by the longest prefix; None for an address of no list."""
    return [lists()[number] if number >= 0 else None for number in _all().lookup(addresses).tolist()]


@cache
def _all() -> Networks:
    return Networks.of((text, number) for number, each in enumerate(lists()) for text in each.networks)


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    folder = files("tidemark.parse") / "network_lists"
    paths = sorted(folder.iterdir(), key=lambda path: path.name)
    return tuple(
        (path.name.removesuffix(".tsv"), path.read_text(encoding="utf-8"))
        for path in paths
        if path.name.endswith(".tsv")
    )


def _network(text: str) -> str:
    try:
        return str(ip_network(text, strict=False))
    except ValueError as error:
        names = ", ".join(["auto", *KINDS, *(each.name for each in lists() if each.name not in KINDS)])
        raise SettingError(
            f"{text!r} of trusted_proxies is no network", f"Use one such as 10.0.0.0/8, or one of {names}."
        ) from error


def _range(network: str) -> tuple[int, int]:
    """The first packed address of a network, and the number of bits that all of them share."""
    address, _, bits = network.partition("/")
    return int.from_bytes(_packed(address).ljust(_BYTES, b"\0"), "big"), 8 + int(bits)


def _packed(address: str | None) -> bytes:
    """Bytes in the order of addresses; none for what is no address."""
    if address is None:
        return b""
    try:
        if ":" in address:
            return _IPV6 + socket.inet_pton(socket.AF_INET6, address)
        return _IPV4 + socket.inet_pton(socket.AF_INET, address)
    except (OSError, ValueError):
        return b""
