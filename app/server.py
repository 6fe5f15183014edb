"""The dashboard's server, one ASGI application behind one guard: `streamlit run app/server.py`, with TIDEMARK_HOME in
the environment. Pages, the HTTP API and MCP are its routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread

from dashboard.based import Based
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from streamlit.starlette import App

from tidemark.access.door import Door
from tidemark.access.guard import Guard
from tidemark.access.routes import routes
from tidemark.api import http
from tidemark.api.answers import Answers


async def pulse(request: Request) -> Response:
    """The states of tables, for the browsers of pages that are open."""
    from dashboard.pulse import answer  # loaded by then

    response: Response = await answer(request)
    return response


def load() -> None:
    """Imports what the pages need."""
    from dashboard import ahead

    ahead.load()


@asynccontextmanager
async def loading(app: App) -> AsyncIterator[None]:
    """Loads the pages beside the first browser, which meanwhile loads their scripts."""
    Thread(target=load, daemon=True, name="load").start()
    yield


door = Door.of()
app = App(
    Path(__file__).with_name("main.py"),
    lifespan=loading,
    routes=[*routes(door), *http.routes(door, Answers()), Route("/pulse", pulse)],
    middleware=[Middleware(Guard, door=door), Middleware(Based)],
)
