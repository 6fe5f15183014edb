"""What an address says by the lists of networks alone, with the standard library. Shares no code with the project."""

from __future__ import annotations

from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path

import tidemark

_DIRECTORY = Path(tidemark.__file__).parent / "parse" / "network_lists"
_ORDER = ("hosting", "cdn", "crawler", "relay", "private")

# The first bits of networks, by IP version and their number.
Networks = dict[tuple[int, int], set[int]]


@cache
def network_of(address: str) -> str | None:
    """The kind of the longest network that has the address; None for private ones and any other."""
    sizes = [
        (bits, _ORDER.index(kind)) for kind, networks, _ in _lists() for bits in _around(address, networks)
    ]
    _, kind = max(sizes, default=(0, _ORDER.index("private")))
    return None if _ORDER[kind] == "private" else _ORDER[kind]


@cache
def verified(address: str, bot: str | None) -> str | None:
    """Whether a bot comes from the networks that its operator publishes for it."""
    lists = [networks for _, networks, bots in _lists() if bot and bot.lower() in bots]
    if not lists or _place(address) is None:  # the name of a host
        return None
    return "verified" if any(_around(address, networks) for networks in lists) else "forged"


def _around(address: str, networks: Networks) -> list[int]:
    """The prefix lengths of those networks that have the address."""
    place = _place(address)
    if place is None:
        return []
    return [
        bits
        for (version, bits), known in networks.items()
        if version == place.version and int(place) >> place.max_prefixlen - bits in known
    ]


@cache
def _place(address: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(address)
    except ValueError:
        return None


@cache
def _lists() -> list[tuple[str, Networks, list[str]]]:
    """Kind, networks and bots of each list."""
    result = []
    for path in _DIRECTORY.glob("*.tsv"):
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        cells = header.removeprefix("# ").split("\t")
        networks: Networks = {}
        for network in map(ip_network, lines):
            first = int(network.network_address) >> network.max_prefixlen - network.prefixlen
            networks.setdefault((network.version, network.prefixlen), set()).add(first)
        result.append((cells[0], networks, cells[4].split(",") if len(cells) > 4 else []))
    return result
