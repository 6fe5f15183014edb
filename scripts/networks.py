"""Renews lists in src/tidemark/parse/network_lists/ from what their operators publish.

python scripts/networks.py DIRECTORY DATE

DIRECTORY has one folder per list to renew, named like it, with the operator's files in any text format. Every network
in them is taken. Other lists stay. DATE is the day on which the operators published the files. A new list begins as a
file with only its first line: kind, date, source and licence, and for a crawler the names of its bots.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tidemark.parse.list_files import networks_of, text_of
from tidemark.parse.networks import NetworkList, list_of

TARGET = Path(__file__).parents[1] / "src" / "tidemark" / "parse" / "network_lists"


def main() -> None:
    directory, date = Path(sys.argv[1]), sys.argv[2]
    renewed = [folder for folder in sorted(directory.iterdir()) if folder.is_dir()]
    # Those of hosting come last: they leave out what the others have.
    for folder in sorted(renewed, key=lambda folder: _list(folder.name).kind == "hosting"):
        published = [file.read_text("utf-8") for file in sorted(folder.iterdir())]
        every = [_list(path.stem) for path in TARGET.glob("*.tsv")]
        cdns = [network for each in every if each.kind == "cdn" for network in networks_of(each)]
        (TARGET / f"{folder.name}.tsv").write_text(
            text_of(_list(folder.name), date, published, cdns), "utf-8"
        )


def _list(name: str) -> NetworkList:
    return list_of(name, (TARGET / f"{name}.tsv").read_text("utf-8"))


if __name__ == "__main__":
    main()
