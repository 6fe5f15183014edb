"""A cache that is bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


@dataclass
class Recent(Generic[T]):
    """Values by key, of at most `bytes` in all; those that were not used for longest go first. Nobody changes them."""

    bytes: int
    _entries: OrderedDict[Any, tuple[T, int]] = field(default_factory=OrderedDict)
    _size: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    # One for each key whose value is being made.
    _making: MutableMapping[Any, threading.Lock] = field(default_factory=WeakValueDictionary)

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

    def made(
        self, key: Any, make: Callable[[], T], size_of: Callable[[T], int], most: int | None = None
    ) -> T:
        """The value under a key. If there is none, one thread makes it while others that ask for it wait; it is
        remembered unless its size is more than `most` bytes."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            value = self.get(key)
            if value is None:
                value = make()
                size = size_of(value)
                if most is None or size <= most:
                    self.put(key, value, size)
            return value

    def items(self) -> list[tuple[Any, T]]:
        """All keys with their values, the one that was not used for longest first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._entries.items()]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._size = 0
