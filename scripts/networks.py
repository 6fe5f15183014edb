"""Renews lists in src/tidemark/parse/network_lists/ from what their operators publish.

python scripts/networks.py DIRECTORY DATE

DIRECTORY has one folder per list to renew, named like it, with the operator's files in any text format. Every network
in them is taken. Other lists stay. DATE is the day on which the operators published the files. A new list begins as a
file with only its first line: kind, date, source and licence, and for a crawler the names of its bots.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from pathlib import Path

Network = IPv4Network | IPv6Network

TARGET = Path(__file__).parents[1] / "src" / "tidemark" / "parse" / "network_lists"
_NETWORK = re.compile(r"[0-9A-Fa-f:.]*[:.][0-9A-Fa-f:.]*/\d{1,3}")


def main() -> None:
    directory, date = Path(sys.argv[1]), sys.argv[2]
    renewed = [TARGET / f"{folder.name}.tsv" for folder in sorted(directory.iterdir()) if folder.is_dir()]
    for path in renewed:
        kind, _, *others = _header(path)
        files = sorted((directory / path.stem).iterdir())
        named = [ip_network(text) for file in files for text in _NETWORK.findall(file.read_text("utf-8"))]
        # Some lists have networks that are reserved for documentation.
        networks = [each for each in named if each.is_global or kind == "private"]
        if not networks:
            raise SystemExit(f"{directory / path.stem} has no networks")
        _write(path, (kind, date, *others), networks)
    # An operator's list of all networks has those of its CDN, too, maybe in smaller parts, which would win.
    cdns = [each for path in TARGET.glob("*.tsv") if _header(path)[0] == "cdn" for each in _networks(path)]
    for path in renewed:
        if _header(path)[0] == "hosting":
            others = [each for each in _networks(path) if not any(_within(each, cdn) for cdn in cdns)]
            _write(path, _header(path), others)


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("# ").rstrip("\n").split("\t")


def _networks(path: Path) -> list[Network]:
    return [ip_network(line) for line in path.read_text("utf-8").splitlines()[1:]]


def _write(path: Path, header: Iterable[str], networks: list[Network]) -> None:
    four = collapse_addresses(each for each in networks if isinstance(each, IPv4Network))
    six = collapse_addresses(each for each in networks if isinstance(each, IPv6Network))
    lines = ["# " + "\t".join(header), *map(str, four), *map(str, six)]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _within(network: Network, other: Network) -> bool:
    return type(network) is type(other) and network.subnet_of(other)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
