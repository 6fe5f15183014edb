"""Lists of data in files of packages, and the versions of rules that are data."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from importlib.resources import files


def rows(file: str, package: str = "tidemark.parse") -> Iterator[list[str]]:
    """The cells of each line of a file with tabs between them, without empty lines and those that begin with `#`."""
    return (line.split("\t") for line in _lines(file, package) if line and not line.startswith("#"))


def comments(file: str) -> str:
    """The lines of such a file that begin with `#`."""
    return "\n".join(line for line in _lines(file, "tidemark.parse") if line.startswith("#"))


def _lines(file: str, package: str) -> list[str]:
    return (files(package) / file).read_text(encoding="utf-8").splitlines()


def version_of(*data: object) -> str:
    """A short hash of data, the same in every process: of text, numbers and lists, tuples and dictionaries of them."""
    return blake2b(repr(data).encode(), digest_size=4).hexdigest()
