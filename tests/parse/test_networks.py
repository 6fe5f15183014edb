"""Which network an address is in, compared with the standard library."""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import pyarrow as pa
import pytest

from tests.pipeline import places
from tidemark.errors import SettingError
from tidemark.parse import networks
from tidemark.parse.networks import Networks, Trust


def longest(table: list[tuple[str, int]], address: str) -> int:
    """The number of the longest prefix, of equal ones the highest number."""
    place = ip_address(address)
    numbered = [(ip_network(text), number) for text, number in table]
    inside = [(network.prefixlen, number) for network, number in numbered if place in network]
    return max(inside)[1] if inside else -1


@pytest.mark.parametrize("seed", range(20))
def test_the_longest_prefix_wins(seed: int) -> None:
    """Networks within each other, at both ends of the address space, and the addresses at their borders."""
    rng = random.Random(seed)
    table: list[tuple[str, int]] = []
    for number in range(rng.randint(0, 60)):
        six = rng.random() < 0.5
        bits = 128 if six else 32
        near = rng.choice([0, 1 << bits - 1, (1 << bits) - 1, rng.getrandbits(bits)])
        address = (near ^ rng.getrandbits(rng.choice([3, 10, bits]))) % (1 << bits)
        first = IPv6Address(address) if six else IPv4Address(address)
        table.append((str(ip_network(f"{first}/{rng.randint(0, bits)}", strict=False)), number))
    edges = [
        edge
        for text, _ in table
        for network in [ip_network(text)]
        for edge in (int(network[0]) - 1, int(network[0]), int(network[-1]), int(network[-1]) + 1)
        if 0 <= edge < 1 << network.max_prefixlen
        for edge in [IPv6Address(edge) if isinstance(network, IPv6Network) else IPv4Address(edge)]
    ]
    addresses = [*map(str, edges), *(str(IPv4Address(rng.getrandbits(32))) for _ in range(50)), "::", "::1"]
    wanted = [longest(table, each) for each in addresses]
    assert Networks.of(table).lookup(addresses).tolist() == wanted


def test_what_is_no_address_is_in_no_network() -> None:
    everything = Networks.of([("0.0.0.0/0", 0), ("::/0", 1)])
    odd = [None, "", "-", "unknown", "1.2.3", "1.2.3.4:80", "[::1]", "fe80::1%eth0", "localhost", "1.2.3.4/8"]
    assert everything.lookup(odd).tolist() == [-1] * len(odd)
    assert everything.lookup(["255.255.255.255", "0.0.0.0", "::", "ffff:" * 7 + "ffff"]).tolist() == [
        0,
        0,
        1,
        1,
    ]
    assert Networks.of([]).lookup(["::1", None]).tolist() == [-1, -1]


@pytest.mark.parametrize(
    "address, kind, name",
    [
        ("127.0.0.1", "private", "private"),
        ("::1", "private", "private"),
        ("10.1.2.3", "private", "private"),
        ("fd12::1", "private", "private"),
        ("172.68.146.54", "cdn", "cloudflare"),
        ("2606:4700::6810:84e5", "cdn", "cloudflare"),
        ("104.28.10.20", "relay", "cloudflare-warp"),  # in 104.16.0.0/13 of Cloudflare
        ("172.224.226.1", "relay", "apple-private-relay"),
        ("13.32.0.1", "cdn", "cloudfront"),
        ("151.101.1.1", "cdn", "fastly"),
        ("23.55.1.1", "cdn", "akamai"),
        ("35.191.0.5", "cdn", "google-front-end"),
        ("147.243.1.1", "cdn", "azure-front-door"),
        ("66.249.66.1", "crawler", "google-googlebot"),
        ("3.5.140.2", "hosting", "amazon"),
        ("198.51.100.7", None, None),
        ("2001:db8::1", None, None),
        ("unknown", None, None),
    ],
)
def test_the_lists_of_the_installation(address: str, kind: str | None, name: str | None) -> None:
    [each] = networks.lists_of([address])
    assert (each and each.kind, each and each.name) == (kind, name)


@pytest.mark.parametrize("each", networks.lists(), ids=lambda each: each.name)
def test_addresses_at_the_borders_of_every_list(each: networks.NetworkList) -> None:
    """By all lists together, which overlap, as the standard library has it."""
    some = random.Random(each.name).sample(each.networks, min(8, len(each.networks)))
    borders = [
        ip_address(edge)
        for network in map(ip_network, some)
        for edge in (int(network[0]) - 1, int(network[0]), int(network[-1]), int(network[-1]) + 1)
        if 0 <= edge < 1 << network.max_prefixlen and (network.version == 6) == (edge >= 1 << 32)
    ]
    addresses = list(map(str, borders))
    inside = sum(any(address in ip_network(text) for text in some) for address in borders)
    assert inside >= len(some)
    assert networks.kinds_of(addresses) == [places.network_of(address) for address in addresses]


def test_each_list_says_its_kind_its_day_and_its_source() -> None:
    assert {each.kind for each in networks.lists()} == set(networks.KINDS)
    for each in networks.lists():
        assert each.networks and len(each.date) == 10 and each.source.startswith("https://"), each.name
        assert each.licence == "CC0-1.0" and bool(each.bots) == (each.kind == "crawler"), each.name
        assert [str(ip_network(text)) for text in each.networks] == list(each.networks), each.name
    assert max(each.date for each in networks.lists()) in networks.version()


def test_a_list_of_a_home_replaces_the_one_of_its_name_and_changes_the_version() -> None:
    header = "# hosting\t2026-11-01\thttps://example.com/networks\tCC0-1.0"
    own = (("amazon", f"{header}\n192.0.2.0/24\n"), ("example", f"{header}\n198.51.100.0/24\n"))
    addresses = ["192.0.2.1", "198.51.100.1", "3.5.140.2"]
    assert networks.kinds_of(addresses, own) == ["hosting", "hosting", None]
    assert networks.kinds_of(addresses) == [None, None, "hosting"]
    assert Trust.of(("example",), own).trusts(pa.array(addresses)).tolist() == [False, True, False]
    assert networks.version(own).startswith("2026-11-01-") and networks.version(own) != networks.version()


def test_no_network_of_a_cdn_is_within_one_of_its_operators_hosting() -> None:
    """Neither is one within a network of a relay: the user of the relay could pretend any address."""
    kinds = {text: each.kind for each in networks.lists() for text in each.networks}
    for text, kind in kinds.items():
        if kind in ("hosting", "cdn"):
            network = ip_network(text)
            around = {
                kinds.get(str(network.supernet(new_prefix=bits))) for bits in range(7, network.prefixlen)
            }
            assert not around & ({"cdn", "relay"} if kind == "hosting" else {"relay"}), text


@pytest.mark.parametrize(
    "entries, trusted",
    [
        (("auto",), ["10.0.0.1", "172.68.146.54", "13.32.0.1"]),
        (("private",), ["10.0.0.1"]),
        (("cdn",), ["172.68.146.54", "13.32.0.1"]),
        (("cloudflare",), ["172.68.146.54"]),
        (("cloudfront", "198.51.100.0/24"), ["13.32.0.1", "198.51.100.7"]),
        (("198.51.100.7",), ["198.51.100.7"]),
        (("2001:db8::/32", "198.51.100.0/32"), ["2001:db8::1"]),
        (("104.16.0.0/12",), ["104.28.10.20"]),  # what the user says counts more than the lists
        (("0.0.0.0/0",), ["10.0.0.1", "172.68.146.54", "104.28.10.20", "13.32.0.1", "198.51.100.7"]),
    ],
)
def test_trusted_are_networks_and_names(entries: tuple[str, ...], trusted: list[str]) -> None:
    addresses = [
        "10.0.0.1",
        "172.68.146.54",
        "104.28.10.20",
        "13.32.0.1",
        "198.51.100.7",
        "2001:db8::1",
        None,
    ]
    flags = Trust.of(entries).trusts(pa.array(addresses, pa.string()))
    assert [each for each, flag in zip(addresses, flags, strict=True) if flag] == trusted


def test_another_name_is_an_error_that_names_those_that_exist() -> None:
    with pytest.raises(SettingError, match="'cloudfare' of trusted_proxies is no network") as error:
        Trust.of(("private", "cloudfare"))
    assert "cloudflare" in error.value.remedy


CRAWLERS = [each for each in networks.lists() if each.bots]


@pytest.mark.parametrize("each", CRAWLERS, ids=lambda each: each.name)
def test_a_bot_is_verified_in_the_networks_of_its_list_and_forged_outside(each: networks.NetworkList) -> None:
    edges = [str(ip_network(text)[place]) for text in each.networks for place in (0, -1)]
    bot = max(each.bots)
    assert networks.verified([bot.title()] * len(edges), edges) == ["verified"] * len(edges)
    elsewhere = ["198.51.100.7", "2001:db8::1", "3.5.140.2", "104.28.10.20"]
    assert networks.verified([bot] * 4, elsewhere) == ["forged"] * 4


def test_a_bot_without_published_networks_or_address_is_not_verifiable() -> None:
    bots = ["Bytespider", None, "Googlebot", "Googlebot"]
    assert networks.verified(bots, ["66.249.66.1", "66.249.66.1", None, "crawl.example"]) == [None] * 4
    # Anyone can send requests from the hosting where fetchers of users run.
    assert networks.verified(["Googlebot", "Google-Read-Aloud"], ["34.64.6.1"] * 2) == ["forged", "verified"]
