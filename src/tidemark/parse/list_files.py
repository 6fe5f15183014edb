"""Lists of networks as files: written from what operators publish, and validated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from tidemark.errors import InputError
from tidemark.parse.networks import NetworkList, list_of

Network = IPv4Network | IPv6Network

_NETWORK = re.compile(r"[0-9A-Fa-f:.]*[:.][0-9A-Fa-f:.]*/\d{1,3}")
_CREATED = re.compile(r'"(?:creationTime|createDate|syncTime)"\s*:\s*"(\d{4}-\d\d-\d\d)')
# Nobody has a larger network, by version of the protocol: bits that the addresses share.
_LEAST_BITS = {4: 7, 6: 16}


def text_of(known: NetworkList, date: str, published: Iterable[str], cdns: Sequence[Network]) -> str:
    """The file of a list with all networks in the `published` texts, of this `date`. The rest is as `known`.

    An operator's list of all networks also has those of its CDN, maybe in smaller parts, which would win: networks of
    hosting within `cdns` are left out, and so are those of `reserved_in`. Raises InputError if there are none, or a
    text is no network.
    """
    networks = [each for each in _named(known, published) if not _is_reserved(known, each)]
    if known.kind == "hosting":
        networks = [each for each in networks if not any(_within(each, cdn) for cdn in cdns)]
    if not networks:
        raise _refused(known.name, "it has no networks")
    four = collapse_addresses(each for each in networks if isinstance(each, IPv4Network))
    six = collapse_addresses(each for each in networks if isinstance(each, IPv6Network))
    cells = [
        known.kind,
        date,
        known.source,
        known.licence,
        *([",".join(sorted(known.bots))] if known.bots else []),
    ]
    return "\n".join(["# " + "\t".join(cells), *map(str, four), *map(str, six)]) + "\n"


def reserved_in(known: NetworkList, published: Iterable[str]) -> tuple[str, ...]:
    """Networks in the published texts that nobody's clients have, such as those reserved for documentation. Raises
    InputError if a text is no network."""
    networks = dict.fromkeys(_named(known, published))
    return tuple(str(each) for each in networks if _is_reserved(known, each))


def _named(known: NetworkList, published: Iterable[str]) -> list[Network]:
    try:
        return [ip_network(text) for each in published for text in _NETWORK.findall(each)]
    except ValueError as error:
        raise _refused(known.name, str(error)) from error


def _is_reserved(known: NetworkList, network: Network) -> bool:
    return known.kind != "private" and not network.is_global


def date_of(published: Iterable[str]) -> str:
    """The newest day on which the texts say that they were made; empty if none says one."""
    return max((day for each in published for day in _CREATED.findall(each)), default="")


def networks_of(each: NetworkList) -> list[Network]:
    """The networks of a list."""
    return [ip_network(text) for text in each.networks]


def validated(name: str, text: str) -> NetworkList:
    """The list in a file. Raises InputError if it is none, or has what is no network, or is larger than any."""
    list_ = list_of(name, text)
    try:
        networks = networks_of(list_)
    except ValueError as error:
        raise _refused(name, str(error)) from error
    if not networks:
        raise _refused(name, "it has no networks")
    for each in networks:
        if each.prefixlen < _LEAST_BITS[each.version]:
            raise _refused(name, f"{each} is larger than any operator's network")
    return list_


def _within(network: Network, other: Network) -> bool:
    return type(network) is type(other) and network.subnet_of(other)  # type: ignore[arg-type]


def _refused(name: str, why: str) -> InputError:
    return InputError(f"{name} is no list of networks: {why}", "Correct the file, or remove it.")
