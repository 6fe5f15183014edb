"""What an address says by the lists of networks alone, with the standard library. Shares no code with the project."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path

import tidemark

_DIRECTORY = Path(tidemark.__file__).parent / "parse" / "network_lists"
_ORDER = ("hosting", "cdn", "crawler", "relay", "private")


@cache
def network_of(address: str) -> str | None:
    """The kind of the longest network that has the address; None for private ones and any other."""
    _, kind = max(_around(address), default=(0, "private"))
    return None if kind == "private" else kind


@cache
def verified(address: str, bot: str | None) -> str | None:
    """Whether a bot comes from the networks that its operator publishes for it."""
    lists = [networks for _, networks, bots in _lists() if bot and bot.lower() in bots]
    try:
        inside = any(prefix in networks for networks in lists for prefix in _prefixes(address))
    except ValueError:  # the name of a host
        return None
    return ("verified" if inside else "forged") if lists else None


def _around(address: str) -> Iterator[tuple[int, str]]:
    try:
        for bits, network in enumerate(_prefixes(address)):
            kinds = [kind for kind, networks, _ in _lists() if network in networks]
            if kinds:
                yield bits, max(kinds, key=_ORDER.index)
    except ValueError:
        return


def _prefixes(address: str) -> list[str]:
    place = ip_address(address)
    return [str(ip_network((place, bits), strict=False)) for bits in range(place.max_prefixlen + 1)]


@cache
def _lists() -> list[tuple[str, frozenset[str], list[str]]]:
    """Kind, networks and bots of each list."""
    result = []
    for path in _DIRECTORY.glob("*.tsv"):
        header, *networks = path.read_text(encoding="utf-8").splitlines()
        cells = header.removeprefix("# ").split("\t")
        result.append((cells[0], frozenset(networks), cells[4].split(",") if len(cells) > 4 else []))
    return result
