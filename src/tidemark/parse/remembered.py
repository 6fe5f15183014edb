"""A cache of functions of one text, whose size depends neither on how many texts there are nor on how long they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

# Longer texts, which anybody can send, are computed each time.
MOST_CHARACTERS = 500
_T = TypeVar("_T")


def remembered(most: int) -> Callable[[Callable[[str], _T]], Callable[[str], _T]]:
    """Keeps the results for the last `most` texts of up to MOST_CHARACTERS."""

    def of(function: Callable[[str], _T]) -> Callable[[str], _T]:
        kept = lru_cache(maxsize=most)(function)

        @wraps(function)
        def result(text: str) -> _T:
            return kept(text) if len(text) <= MOST_CHARACTERS else function(text)

        return result

    return of
