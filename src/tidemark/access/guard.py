"""The one middleware of the server. Pages, websocket, media, downloads and every other route stand behind it: it
refuses a foreign Host or Origin, decides who asks, and gives that to whatever answers (`tidemark.access.asking`)."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tidemark.access.asking import HEADER, SCOPE, Asking, signed
from tidemark.access.audit import Audit
from tidemark.access.door import Door, client_of, share_asking
from tidemark.access.entering import WANTED
from tidemark.access.hosts import values
from tidemark.access.html import message_page
from tidemark.access.routes import CALLBACK, LOGIN, LOGOUT, UNLOCKED, Passwords, refused, unlock
from tidemark.errors import InputError

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SHARE = "/share/"
PUBLIC = frozenset({LOGIN, LOGOUT, CALLBACK})
# First parts of paths that are no pages, and those that a share does not reach.
_NO_PAGES = frozenset({"_stcore", "media", "component", "static", "api", "mcp", "share", "auth"})
_NOT_SHARED = frozenset({"api", "mcp", "share", "auth", "login", "logout", "oauth2callback"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_KEY = re.compile(rb"tm_[A-Za-z0-9_-]{40}")
_OWN_HEADERS = b"x-tidemark-"
# How often a websocket that only sends is checked.
_CHECK_SECONDS = 1.0
_POLICY_VIOLATION = 1008


class Guard:
    """An ASGI middleware; `door` decides."""

    def __init__(self, app: App, door: Door) -> None:
        self._app = app
        self._door = door
        self._passwords = Passwords(door)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, self._ending(send))
            return
        headers = [each for each in scope["headers"] if not each[0].lower().startswith(_OWN_HEADERS)]
        visit = _Visit({**scope, "headers": headers}, receive, send)
        try:
            answer = self._refused(visit.scope)
            if answer is None:
                if not self._door.platform:
                    visit.drop_origin()
                shared = visit.path.startswith(SHARE)
                answer = await (self._share(visit) if shared else self._enter(visit))
        except InputError as error:
            answer = refused(503, error.problem, error.remedy)
        if answer is None:
            await visit.pass_to(self._app)
        else:
            await visit.answer(answer)

    def _ending(self, send: Send) -> Send:
        """Sends the messages of the server's life; at its end the record of access has every row. A signal ends the
        process right afterwards."""

        async def ending(message: Message) -> None:
            if message["type"] == "lifespan.shutdown.complete":
                await to_thread.run_sync(self._door.audit.write)
            await send(message)

        return ending

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that no login would help."""
        door, headers = self._door, scope["headers"]
        if _KEY.search(scope.get("query_string", b"")):
            return refused(
                400, "there is a key in the address", "Revoke it, and send a key in the header Authorization."
            )
        if door.platform:
            return None  # its own proxy is the only one that reaches this server, and Streamlit compares the origin
        served_at = (scope.get("server") or ("",))[0]
        changing = scope["type"] == "http" and scope["method"] not in _SAFE
        problem = door.hosts.refusal(headers, str(served_at or ""), changing=changing)
        return refused(403, *problem) if problem else None

    async def _enter(self, visit: _Visit) -> Response | None:
        """Lets somebody in, or gives the answer."""
        door, scope = self._door, visit.scope
        if scope["type"] == "http" and visit.path in PUBLIC:
            return None
        asking = door.asking(scope)
        if asking is None:
            return _who(visit)
        if asking.right.sites == frozenset():
            door.audit.record(asking, "refused", visit.path, "refused")
            return _may_not(visit, asking)
        if (
            asking.how == "key"
            and scope["type"] == "http"
            and scope["method"] not in _SAFE
            and visit.path != "/mcp"
        ):
            door.audit.record(asking, "refused", visit.path, "refused")
            return refused(403, "a key reads only", "Log in to change something.")
        visit.let_in(asking, lambda: door.asking(scope))
        if visit.path.startswith("/media/"):
            visit.record_download(door.audit, asking)
        return None

    async def _share(self, visit: _Visit) -> Response | None:
        """Lets somebody in by a share's address, or gives the answer."""
        door, scope = self._door, visit.scope
        token, slash, rest = visit.path.removeprefix(SHARE).partition("/")
        address = f"{SHARE}{token}"
        share = door.shares.of(token)
        if share is None or rest.partition("/")[0] in _NOT_SHARED:
            return refused(404, "there is no such share, or it has expired", "Ask for a new address.")
        visit.ancestors = share.ancestors
        if not door.unlocked(share, scope):
            if (slash and rest) or scope["type"] != "http":
                return refused(401, "this share has a password", f"Open {SHARE}… in a browser.")
            return await unlock(door, self._passwords, share, Request(scope, visit.receive), address)
        if scope["type"] == "http" and scope["method"] not in _SAFE:
            return refused(405, "a share reads only", "Use GET.")
        if share.password and scope["query_string"] == UNLOCKED.encode():
            return RedirectResponse(address, 303)
        # Not where the password is asked for: a browser that tells no referrer tells no origin of the form, either.
        visit.referrer = "no-referrer"
        asking = share_asking(share, client_of(scope))

        def still() -> Asking | None:
            known = door.sharing(token, scope)
            return known if known and door.unlocked(share, scope) else None

        visit.let_in(asking, still)
        if rest.startswith("media/"):
            visit.record_download(door.audit, asking)
        visit.move(f"/{rest}", base=address if not slash else "")
        return None


class _Visit:
    """A request or a websocket on its way through the guard."""

    def __init__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.ancestors = "'none'"
        self.referrer = "same-origin"
        self._downloaded: Callable[[str], None] | None = None
        self._send = send
        self._base = ""
        self._asking: Asking | None = None
        self._still: Callable[[], Asking | None] = lambda: None

    @property
    def path(self) -> str:
        return str(self.scope["path"])

    def let_in(self, asking: Asking, still: Callable[[], Asking | None]) -> None:
        """`still` gives who the same request would be of now."""
        self._asking, self._still = asking, still
        self.scope[SCOPE] = asking
        header = (HEADER.encode(), signed(asking).encode())
        self.scope["headers"] = [*self.scope["headers"], header]

    def record_download(self, audit: Audit, asking: Asking) -> None:
        """Records it if the answer is a file that a browser saves."""
        path = self.path
        self._downloaded = lambda name: audit.record(asking, "download", name, clicked=path)

    def drop_origin(self) -> None:
        """Behind a proxy the origin, which has been compared, is not that of Host, and Streamlit would refuse it."""
        self.scope["headers"] = [each for each in self.scope["headers"] if each[0].lower() != b"origin"]

    def move(self, path: str, base: str = "") -> None:
        """Answers as if another path had been asked for. With `base`, the page's relative addresses lie below it."""
        self.scope |= {"path": path, "raw_path": quote(path).encode()}
        if base and path == "/":
            self._base = base
            # The page is rewritten, so it must come whole and as text.
            unwanted = {b"accept-encoding", b"if-none-match", b"if-modified-since", b"range"}
            self.scope["headers"] = [
                each for each in self.scope["headers"] if each[0].lower() not in unwanted
            ]

    async def answer(self, response: Response) -> None:
        """Answers in place of the application."""
        if self.scope["type"] == "http" or "websocket.http.response" in self.scope.get("extensions", {}):
            await response(self.scope, self.receive, self._protected)
        else:
            await self._send({"type": "websocket.close", "code": _POLICY_VIOLATION})

    async def pass_to(self, app: App) -> None:
        if self.scope["type"] == "websocket":
            socket = _Socket(self.receive, self._send, lambda: self._still() == self._asking)
            await app(self.scope, socket.receive, socket.send)
        elif self._base:
            await app(self.scope, self.receive, _Rebased(self._protected, self._base).send)
        else:
            await app(self.scope, self.receive, self._protected)

    async def _protected(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            headers.append("content-security-policy", f"frame-ancestors {self.ancestors}")
            if self.ancestors == "'none'":
                headers["x-frame-options"] = "DENY"
            headers["x-content-type-options"] = "nosniff"
            headers["referrer-policy"] = self.referrer
            kind, _, name = headers.get("content-disposition", "").partition("filename=")
            if self._downloaded and kind.startswith("attachment") and self.scope["method"] == "GET":
                self._downloaded(name.strip('"'))
        await self._send(message)


@dataclass
class _Socket:
    """A websocket that is closed as soon as it is not of the same person with the same right any more."""

    _receive: Receive
    _send: Send
    _same: Callable[[], bool]
    _checked_at: float = 0.0
    _closed: bool = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "websocket.receive" and not await self._holds():
            return {"type": "websocket.disconnect", "code": _POLICY_VIOLATION}
        return message

    async def send(self, message: Message) -> None:
        late = time.monotonic() - self._checked_at > _CHECK_SECONDS
        if message["type"] == "websocket.send" and late:
            await self._holds()
        if not self._closed:
            await self._send(message)

    async def _holds(self) -> bool:
        self._checked_at = time.monotonic()
        if not self._closed and not self._same():
            self._closed = True
            await self._send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return not self._closed


@dataclass
class _Rebased:
    """Sends a page whose relative addresses lie below `base`."""

    _send: Send
    _base: str
    _start: Message | None = None
    _body: bytes = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if message.get("more_body") or self._start is None:
            return
        body = self._body.replace(b'"./', f'"{self._base}/'.encode())
        headers = MutableHeaders(raw=self._start.setdefault("headers", []))
        if "content-length" in headers and self._body:
            headers["content-length"] = str(len(body))
        await self._send(self._start)
        await self._send({"type": "http.response.body", "body": body})


def _who(visit: _Visit) -> Response:
    """The answer to somebody who has not logged in."""
    if not _is_page(visit):
        return refused(
            401, "nobody is logged in", f"Log in at {LOGIN}, or send a key: Authorization: Bearer tm_…"
        )
    response = RedirectResponse(LOGIN, 303)
    query = visit.scope.get("query_string", b"").decode("latin-1")
    wanted = quote(visit.path + (f"?{query}" if query else ""), safe="")
    if len(wanted) < 2000:
        response.set_cookie(WANTED, wanted, max_age=600, path="/", httponly=True, samesite="lax")
    return response


def _may_not(visit: _Visit, asking: Asking) -> Response:
    """The answer to somebody without any right."""
    if _is_page(visit):
        text = f"You are known as {asking.name}, but may see nothing here. An admin can change that in [access.people]."
        return message_page("No access", text, 403)
    return refused(403, f"{asking.name} may see nothing here", "An admin can change that in [access.people].")


def _is_page(visit: _Visit) -> bool:
    first, _, _ = visit.path.lstrip("/").partition("/")
    last = visit.path.rpartition("/")[2]
    if visit.scope["type"] != "http" or visit.scope["method"] not in ("GET", "HEAD"):
        return False
    if next(iter(values(visit.scope["headers"], b"authorization")), ""):
        return False
    return first not in _NO_PAGES and "." not in last
