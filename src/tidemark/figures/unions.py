"""Remembers unions of sketches."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Any


@dataclass
class UnionCache:
    """Cache of united days, each with a fingerprint of its rows; removes the least recently used."""

    # A month's days, for every table and grouping that the pages ask for.
    limit: int = 600
    entries: OrderedDict[Any, tuple[Any, Any]] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def get(self, key: Any, fingerprint: Any) -> Any:
        with self.lock:
            entry = self.entries.get(key)
            if entry is None or entry[0] != fingerprint:
                return None
            self.entries.move_to_end(key)
            return entry[1]

    def put(self, key: Any, fingerprint: Any, value: Any) -> None:
        with self.lock:
            self.entries[key] = (fingerprint, value)
            self.entries.move_to_end(key)
            while len(self.entries) > self.limit:
                self.entries.popitem(last=False)
