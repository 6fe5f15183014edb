"""Brings this installation's own code to the executors of a cluster."""

from __future__ import annotations

import hashlib
import zipfile
from importlib.util import find_spec
from pathlib import Path

from tidemark import __version__
from tidemark.settings import Settings

PACKAGES = ("tidemark", "bronze", "silver", "gold")
# Files of one moment, whatever their age: the archive of the same code is the same.
_EPOCH = (2020, 1, 1, 0, 0, 0)


def code_archive(settings: Settings) -> Path:
    """An archive of the code that runs here, in the home, for Spark to send to its executors.

    It has what the wheel has of these packages, but made from the installation itself, so executors run the
    driver's own version, a change in an editable installation included. What the code depends on is not in it.
    """
    files = dict(_files())
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    settings.run_directory.mkdir(parents=True, exist_ok=True)
    path = settings.run_directory / f"tidemark-{__version__}-{digest.hexdigest()[:12]}.zip"
    if not path.exists():
        unfinished = path.with_suffix(".part")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
        unfinished.replace(path)
    return path


def _files() -> list[tuple[str, bytes]]:
    found = []
    for package in PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            found += [
                (f"{package}/{file.relative_to(place)}", file.read_bytes())
                for file in sorted(Path(place).rglob("*.py"))
                if "_app" not in file.parts
            ]
    return found
