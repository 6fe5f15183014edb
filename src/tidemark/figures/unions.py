"""Remembers what days have: unions of sketches, and counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidemark.figures.recent import Recent

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


@dataclass
class UnionCache(Days):
    """Cache of united days, and of their `counts`."""

    entries: Recent[tuple[Any, Any]] = field(default_factory=lambda: Recent(_BYTES))
    counts: Days = field(default_factory=lambda: Days(Recent(_COUNTS_BYTES)))

    @classmethod
    def forgetful(cls) -> UnionCache:
        """One that remembers nothing."""
        return cls(Recent(0), Days(Recent(0)))
