"""Refusals of requests, and the bound on the memory that all requests hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

RETRY_SECONDS = 2


class RefusedError(Exception):
    """A request is not accepted. `status` is HTTP's, `headers` belong to the response."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def busy(text: str) -> RefusedError:
    return RefusedError(429, text, Retry_After=str(RETRY_SECONDS))


class Budget:
    """The bytes that all requests together may hold in memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._lock = Lock()

    @contextmanager
    def share(self) -> Iterator[Share]:
        """A request's share, returned at the end of the context."""
        share = Share(self)
        try:
            yield share
        finally:
            with self._lock:
                self._used -= share.size

    def take(self, share: Share, size: int) -> None:
        if share.size + size > self._limit:
            raise RefusedError(413, "the request needs too much memory: send fewer lines at a time")
        with self._lock:
            if self._used + size > self._limit:
                raise busy("too many lines wait for Kafka: send the request again later")
            self._used += size
            share.size += size


class Share:
    """The bytes that one request holds."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.size = 0

    def take(self, size: int) -> None:
        """Adds to the share. Raises RefusedError with 429 if all requests together hold too much, with 413 if this one
        would alone."""
        self._budget.take(self, size)
