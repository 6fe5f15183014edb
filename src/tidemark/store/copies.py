"""Copies many files of tables at a time."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from tidemark.contract.store import Files

_THREADS = 16


def take_all(target: Files, source: Files, pairs: Iterable[tuple[str, str]], *, renew: bool = False) -> int:
    """Copies each (origin, path). Returns the total bytes. On object storage each copy takes a request."""

    def take(pair: tuple[str, str]) -> int:
        target.take(source, *pair, renew=renew)
        return target.size(pair[1]) or 0

    with ThreadPoolExecutor(_THREADS) as threads:
        return sum(threads.map(take, pairs))
