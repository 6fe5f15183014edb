"""The endpoint's one resource: POST /lines."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from tidemark.access.hosts import Allowed
from tidemark.ingest.body import DisconnectedError, Message, Receive, read_body, too_large
from tidemark.ingest.delivery import Delivery
from tidemark.ingest.records import MOST_KEY_CHARACTERS, PARAMETERS, records_of
from tidemark.ingest.refusal import Budget, RefusedError, Share, busy
from tidemark.parse.formats import FORMATS
from tidemark.settings.sections import IngestSettings

if TYPE_CHECKING:  # takes a second to import, which only masked lines need
    from tidemark.privacy.door import Door

Scope = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]

PATH = "/lines"
MOST_REQUESTS = 256
_PLAIN = ("", "text/plain")
# Some shippers call it JSON.
_NDJSON = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonlines",
    "application/json",
)
# What is still received from a client that is refused before its body was read, so that it reads the answer.
_LATE_BYTES = 1024 * 1024
_LATE_SECONDS = 2.0
log = logging.getLogger("tidemark.ingest")


class App:
    """An ASGI application. A request is answered with 200 when Kafka has acknowledged all of its lines."""

    def __init__(
        self,
        settings: IngestSettings,
        token: str,
        delivery: Delivery,
        own_formats: Collection[str] = (),
        door: Door | None = None,
    ) -> None:
        self._settings = settings
        self._formats = (*FORMATS, *own_formats)
        self._door = door
        self._token = token
        self._delivery = delivery
        self._budget = Budget(settings.buffer_bytes)
        self._requests = 0
        self._allowed = Allowed()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "lifespan and websockets are off"
        request = _Request(receive)
        self._requests += 1
        try:
            with self._budget.share() as share:
                lines = await self._accept(scope, request, share)
            await _answer(send, 200, {"lines": lines})
        except RefusedError as refused:
            log.debug("%s %s", refused.status, refused.text)
            await _refuse(refused, request, send)
        except asyncio.CancelledError:
            await _answer(send, 503, {"error": "the endpoint stops: send the request again"}, close=True)
        except DisconnectedError:
            pass
        except Exception:
            log.exception("a request failed")
            await _answer(send, 500, {"error": "the endpoint failed: see its log"}, close=True)
        finally:
            self._requests -= 1

    async def _accept(self, scope: Scope, request: _Request, share: Share) -> int:
        """The number of lines that Kafka has acknowledged. Raises RefusedError and DisconnectedError."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["path"] != PATH:
            raise RefusedError(404, f"no such resource: use POST {PATH}")
        if scope["method"] != "POST":
            raise RefusedError(405, f"use POST {PATH}", Allow="POST")
        self._authorize(scope, headers)
        ndjson, gzip = _content(headers)
        self._check_length(headers)
        common, key = _parameters(scope), headers.get("idempotency-key", "")
        if len(key) > MOST_KEY_CHARACTERS or not key.isascii():
            raise RefusedError(
                400, f"Idempotency-Key must have at most {MOST_KEY_CHARACTERS} characters, all of them ASCII"
            )
        if self._requests > MOST_REQUESTS:
            raise busy(f"more than {MOST_REQUESTS} requests wait for Kafka: send the request again later")
        # Nothing here holds the body, so it is freed while its lines wait for Kafka.
        records = await asyncio.to_thread(
            records_of,
            await read_body(request.receive, gzip=gzip, most=self._settings.body_bytes, share=share),
            ndjson=ndjson,
            common=common,
            key=key,
            share=share,
            formats=self._formats,
            door=self._door,
        )
        await self._delivery.send(records)
        return len(records)

    def _authorize(self, scope: Scope, headers: dict[str, str]) -> None:
        if not self._token:
            # Without a token, any page in a browser of this machine could send lines.
            foreign = self._allowed.refusal(scope["headers"], self._settings.address)
            if foreign or "origin" in headers:
                reason = foreign[0] if foreign else "a page may not send lines"
                raise RefusedError(403, f"{reason}: set ingest_token, and send it with each request")
        scheme, _, given = headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("latin-1"), self._token.encode())
        if self._token and not (same and scheme.lower() == "bearer"):
            raise RefusedError(
                401,
                "send the token of the endpoint: Authorization: Bearer <token>",
                WWW_Authenticate="Bearer",
            )

    def _check_length(self, headers: dict[str, str]) -> None:
        length = headers.get("content-length")
        if length is None and "transfer-encoding" not in headers:
            raise RefusedError(
                411, "send the lines as the body of the request, with Content-Length or in chunks"
            )
        if length and int(length) > self._settings.body_bytes:
            raise too_large(self._settings.body_bytes)


def _content(headers: dict[str, str]) -> tuple[bool, bool]:
    """Whether the body is NDJSON, and whether it is compressed."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (*_PLAIN, *_NDJSON):
        raise RefusedError(415, f"Content-Type {kind} is not supported: use text/plain or {_NDJSON[0]}")
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise RefusedError(
            415, f"Content-Encoding {encoding} is not supported: use gzip or none", Accept_Encoding="gzip"
        )
    return kind in _NDJSON, encoding.endswith("gzip")


def _parameters(scope: Scope) -> dict[str, str]:
    parameters: dict[str, str] = {}
    try:
        query = parse_qsl(scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise RefusedError(400, "the parameters after ? are not UTF-8 in percent encoding") from error
    for name, value in query:
        if name not in PARAMETERS or name in parameters:
            twice = "given twice" if name in parameters else "unknown"
            raise RefusedError(400, f"parameter {name!r} is {twice}: use {', '.join(PARAMETERS)}")
        parameters[name] = value
    return parameters


class _Request:
    """Remembers whether all of the body was received."""

    def __init__(self, receive: Receive) -> None:
        self.ended = False
        self._receive = receive

    async def receive(self) -> Message:
        message = await self._receive()
        self.ended = not message.get("more_body")
        return message


async def _refuse(refused: RefusedError, request: _Request, send: Send) -> None:
    """Answers. If the client still sends, it gets time to read the answer, then the connection is closed."""
    content = {"error": refused.text}
    if request.ended:
        await _answer(send, refused.status, content, refused.headers)
        return
    await _answer(send, refused.status, content, refused.headers, close=True, more=True)
    late = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LATE_SECONDS):
            while late < _LATE_BYTES and not request.ended:
                late += len((await request.receive()).get("body", b""))
    await send({"type": "http.response.body"})


async def _answer(
    send: Send,
    status: int,
    content: dict[str, Any],
    headers: dict[str, str] | None = None,
    *,
    close: bool = False,
    more: bool = False,
) -> None:
    body = json.dumps(content).encode() + b"\n"
    all_headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **(headers or {}),
        **({"connection": "close"} if close else {}),
    }
    encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": more})
