"""Tells the browser where the server of a page is. Otherwise Streamlit's page at /countries asks for
/countries/_stcore/health first, and gets a 404."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# How a host of Streamlit's pages names the server; the page itself is one directory below it.
SCRIPT = b'<head><script>window.__streamlit = {BACKEND_BASE_URL: new URL("./", location.href).href}</script>'
# A word of Streamlit's own page.
MARK = b"<title>Streamlit</title>"
# Without these headers the page comes whole and as text.
_UNWANTED = (b"accept-encoding", b"if-none-match", b"if-modified-since", b"range")


class Based:
    """An ASGI middleware for pages below /."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not _is_page(scope["path"]):
            await self._app(scope, receive, send)
            return
        headers = [each for each in scope["headers"] if each[0].lower() not in _UNWANTED]
        await self._app({**scope, "headers": headers}, receive, _Page(send).send)


def _is_page(path: str) -> bool:
    name = path.removeprefix("/")
    return bool(name) and "/" not in name and "." not in name


class _Page:
    """Sends a response, with the script where it is a page."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if Headers(raw=message["headers"]).get("content-type", "").startswith("text/html"):
                self._start = message
                return
        elif self._start is not None:
            self._body += message.get("body", b"")
            if message.get("more_body"):
                return
            body = self._body.replace(b"<head>", SCRIPT, 1) if MARK in self._body else self._body
            headers = MutableHeaders(raw=self._start["headers"])
            headers["content-length"] = str(len(body))
            await self._send(self._start)
            message, self._start = {"type": "http.response.body", "body": body}, None
        await self._send(message)
