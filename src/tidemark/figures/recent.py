"""A cache that is bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass
class Recent(Generic[T]):
    """Values by key, of at most `bytes` in all; those that were not used for longest go first. Nobody changes them."""

    bytes: int
    _entries: OrderedDict[Any, tuple[T, int]] = field(default_factory=OrderedDict)
    _size: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Any) -> T | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Any, value: T, size: int) -> None:
        """Remembers a value of so many bytes, in place of another one under its key, unless it alone has too many."""
        with self._lock:
            self._size -= self._entries.pop(key, (value, 0))[1]
            if size > self.bytes:
                return
            self._entries[key] = (value, size)
            self._size += size
            while self._size > self.bytes:
                self._size -= self._entries.popitem(last=False)[1][1]

    def items(self) -> list[tuple[Any, T]]:
        """All keys with their values, the one that was not used for longest first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._entries.items()]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._size = 0
