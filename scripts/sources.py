"""Renews src/tidemark/parse/sources_matomo.tsv from a clone of matomo-org/searchengine-and-social-list (CC0).

python scripts/sources.py CLONE
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import yaml

TARGET = Path(__file__).parents[1] / "src" / "tidemark" / "parse" / "sources_matomo.tsv"
# A host of two files is of the later one.
FILES = {"SearchEngines.yml": "search", "Socials.yml": "social", "AIAssistants.yml": "ai"}
HEADER = """\
# Search engines, social networks and AI assistants: category, name, host. `{{}}` is a country, such as de or co.uk.
# From https://github.com/matomo-org/searchengine-and-social-list, commit {commit} of {date}.
# Licence: CC0 1.0. Made by scripts/sources.py; own entries belong into sources_own.tsv.
"""


def main() -> None:
    clone = Path(sys.argv[1])
    found: dict[str, tuple[str, str]] = {}
    for file, category in FILES.items():
        for name, entries in yaml.safe_load((clone / file).read_text(encoding="utf-8")).items():
            addresses = [
                url for each in entries for url in ([each] if isinstance(each, str) else each["urls"])
            ]
            for address in addresses:
                # A list of hosts cannot tell pages of a host apart. Every host covers its subdomains.
                if "/" not in address and "{}" not in address[2:-2]:
                    found[address.lower().removeprefix("www.").removeprefix("{}.")] = category, unquote(name)
    lines = sorted(f"{category}\t{name}\t{host}\n" for host, (category, name) in found.items())
    told = _git(clone, "log", "-1", "--format=%H %cs").split()
    TARGET.write_text(HEADER.format(commit=told[0], date=told[1]) + "".join(lines), encoding="utf-8")


def _git(clone: Path, *command: str) -> str:
    return subprocess.run(
        ["git", "-C", str(clone), *command], check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    main()
