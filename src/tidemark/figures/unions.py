"""Remembers what days have: unions of sketches, and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from tidemark.figures.recent import Recent

if TYPE_CHECKING:  # small commands import this, and no pandas
    import pandas as pd

Part = TypeVar("Part")

# A month of 20,000,000 requests takes 130 MB by page, by country and in all.
_BYTES = 400_000_000
# Counts of lines take less memory than unions and longer to make, so unions do not push them out.
_COUNTS_BYTES = 100_000_000


@dataclass
class Days:
    """Cache of what days have, each with a fingerprint of its rows."""

    entries: Recent[tuple[Any, Any]]

    def get(self, key: Any, fingerprint: Any) -> Any:
        entry = self.entries.get(key)
        return entry[1] if entry is not None and entry[0] == fingerprint else None

    def put(self, key: Any, fingerprint: Any, value: Any, size: int) -> None:
        """Remembers a value of so many bytes."""
        self.entries.put(key, (fingerprint, value), size)

    def by_day(
        self,
        keys: Mapping[pd.Timestamp, Any],
        prints: Mapping[pd.Timestamp, Any],
        read: Callable[[Sequence[pd.Timestamp]], Mapping[pd.Timestamp, Part]],
        size: Callable[[Part], int],
        prints_after: Callable[[], Mapping[pd.Timestamp, Any]] | None = None,
    ) -> dict[pd.Timestamp, Part]:
        """Returns what each day of `prints` has. A day that is remembered with the same fingerprint is not read; `read`
        gets the others, in runs without a gap. With `prints_after`, a day that changed meanwhile is not remembered."""
        parts = {day: self.get(keys[day], prints[day]) for day in prints}
        stale = [day for day in prints if parts[day] is None]
        for run in _runs(stale):
            parts |= read(run)
        after = prints if prints_after is None or not stale else prints_after()
        for day in stale:
            if after.get(day) == prints[day]:
                self.put(keys[day], prints[day], parts[day], size(parts[day]))
        return parts


def _runs(days: Sequence[pd.Timestamp]) -> list[list[pd.Timestamp]]:
    """Days in order, in runs without a gap: what lies between two runs need not be read."""
    result: list[list[pd.Timestamp]] = []
    for day in days:
        if result and day - result[-1][-1] == timedelta(days=1):
            result[-1].append(day)
        else:
            result.append([day])
    return result


@dataclass
class UnionCache(Days):
    """Cache of united days, and of their `counts`."""

    entries: Recent[tuple[Any, Any]] = field(default_factory=lambda: Recent(_BYTES))
    counts: Days = field(default_factory=lambda: Days(Recent(_COUNTS_BYTES)))

    @classmethod
    def forgetful(cls) -> UnionCache:
        """One that remembers nothing."""
        return cls(Recent(0), Days(Recent(0)))
