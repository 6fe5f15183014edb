"""Reads a request's body in bounded memory, and decompresses it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from tidemark.ingest.refusal import RefusedError, Share

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

# A client that sends nothing for this long is disconnected.
IDLE_SECONDS = 20.0
_PART_BYTES = 64 * 1024
_GZIP = 31  # zlib's window bits for a gzip header and the largest window


class DisconnectedError(Exception):
    """The client has closed the connection."""


async def read_body(receive: Receive, *, gzip: bool, most: int, share: Share) -> bytes:
    """The decompressed body. Neither it nor what is received is larger than `most`.

    Raises RefusedError and DisconnectedError.
    """
    decompress = _Gunzip() if gzip else None
    body = bytearray()
    received = 0
    more = True
    while more:
        try:
            message = await asyncio.wait_for(receive(), IDLE_SECONDS)
        except TimeoutError:
            raise RefusedError(408, f"no data for {IDLE_SECONDS:.0f} seconds") from None
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        data, more = message.get("body", b""), message.get("more_body", False)
        received += len(data)
        for part in decompress.feed(data) if decompress else (data,):
            share.take(len(part))
            body += part
            if max(received, len(body)) > most:
                raise too_large(most)
        if received > most:
            raise too_large(most)
    if decompress:
        decompress.finish()
    return bytes(body)


def too_large(most: int) -> RefusedError:
    return RefusedError(
        413,
        f"the body is larger than {most:,} bytes (ingest_body_bytes, decompressed): send fewer lines at a time",
    )


class _Gunzip:
    """Decompresses gzip, also of several members, in pieces."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._member.eof:
                self._member = zlib.decompressobj(_GZIP)
            self._started = True
            try:
                part = self._member.decompress(data, _PART_BYTES)
            except zlib.error as error:
                raise RefusedError(400, f"the body is not gzip: {error}") from error
            if part:
                yield part
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail

    def finish(self) -> None:
        if self._started and not self._member.eof:
            raise RefusedError(400, "the body is not gzip: it is truncated")
