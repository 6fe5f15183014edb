"""Connections to the endpoint that send no request do not keep others out."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """A connection of uvicorn, closed when the head of its next request takes longer than `timeout_keep_alive`, or when
    a new connection needs its place.

    Uvicorn itself limits only the time from a response to the first byte of the next request.
    """

    _waits_since: float
    _deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._make_room()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._deadline.cancel()
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._waits_since = self.loop.time()
        self._deadline = self.loop.call_later(self.timeout_keep_alive, self._close_unless_requested)

    def _close_unless_requested(self) -> None:
        if self._has_no_request():
            self.transport.close()

    def _has_no_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        """Closes the connection that has waited longest for a request head, if another one waits at all."""
        others = [each for each in self.connections if isinstance(each, Connection) and each is not self]
        waiting = [each for each in others if each._has_no_request()]
        if waiting:
            longest = min(waiting, key=lambda each: each._waits_since)
            # Uvicorn counts it until its connection is lost, which is later than the new connection's request.
            self.connections.discard(longest)
            longest.transport.abort()
