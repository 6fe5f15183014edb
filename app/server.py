"""The dashboard's server, one ASGI application behind one guard: `streamlit run app/server.py`, with TIDEMARK_HOME in
the environment. Pages, the HTTP API and MCP are its routes."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread

from dashboard.based import Based
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send
from streamlit.components.v2 import manifest_scanner
from streamlit.starlette import App

from tidemark.access.door import Door
from tidemark.access.guard import Guard
from tidemark.access.routes import routes


class Api:
    """The HTTP API and MCP as an ASGI application, which is imported after the pages: these do not wait for it."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._router: Router | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._router is None:
            from tidemark.api import http
            from tidemark.api.answers import Answers

            self._router = Router(http.routes(self._door, Answers()))
        await self._router(scope, receive, send)


async def pulse(request: Request) -> Response:
    """The states of tables, for the browsers of pages that are open."""
    from dashboard.pulse import answer  # loaded by then

    response: Response = await answer(request)
    return response


def load() -> None:
    """Imports what the pages need, and reads what the first one shows."""
    from dashboard import ahead

    ahead.load()
    ahead.read_first_page()
    import tidemark.api.http  # noqa: F401

    # Streamlit collects garbage after every drawing of a panel, which took longer than the drawing. It need not look
    # through what stays for good.
    gc.collect()
    gc.freeze()


@asynccontextmanager
async def loading(app: App) -> AsyncIterator[None]:
    """Loads the pages beside the first browser, which meanwhile loads their scripts."""
    Thread(target=load, daemon=True, name="load").start()
    yield


# Components of the pages are declared in code. Streamlit would look through all installed packages for others.
manifest_scanner.scan_component_manifests = lambda max_workers=None: []

door = Door.of()
api = Api(door)
app = App(
    Path(__file__).with_name("main.py"),
    lifespan=loading,
    routes=[*routes(door), Route("/mcp", api), Route("/api{rest:path}", api), Route("/pulse", pulse)],
    middleware=[Middleware(Guard, door=door), Middleware(Based)],
)
