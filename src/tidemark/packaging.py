"""Packages this installation's code for the executors of a cluster."""

from __future__ import annotations

import hashlib
import secrets
import zipfile
from importlib.util import find_spec
from pathlib import Path

from tidemark import __version__
from tidemark.settings import Settings

PACKAGES = ("tidemark", "bronze", "silver", "gold")
# Code, and the data that it reads.
_SUFFIXES = (".py", ".toml", ".tsv")
# A fixed time for all files, so that the same code gives the same archive.
_EPOCH = (2020, 1, 1, 0, 0, 0)


def code_archive(settings: Settings) -> Path:
    """An archive in the home with the driver's code, which Spark sends to its executors.

    It has the same files as the wheel, taken from the installation itself, so executors run the
    driver's version, including changes in an editable installation. Dependencies are not included.
    """
    files = dict(_files())
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    settings.run_directory.mkdir(parents=True, exist_ok=True)
    path = settings.run_directory / f"tidemark-{__version__}-{digest.hexdigest()[:12]}.zip"
    if not path.exists():
        # Two jobs of one home may start at once.
        unfinished = path.with_suffix(f".{secrets.token_hex(8)}")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
        unfinished.replace(path)
    return path


def _files() -> list[tuple[str, bytes]]:
    files = []
    for package in PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            files += [
                (f"{package}/{file.relative_to(place)}", file.read_bytes())
                for file in sorted(Path(place).rglob("*.*"))
                if file.suffix in _SUFFIXES and "_app" not in file.parts
            ]
    return files
