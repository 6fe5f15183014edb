"""The dashboard's server, one ASGI application behind one guard: `streamlit run app/server.py`, with TIDEMARK_HOME in
the environment. Pages, the HTTP API and MCP are its routes."""

from __future__ import annotations

from pathlib import Path

from starlette.middleware import Middleware
from streamlit.starlette import App

from tidemark.access.door import Door
from tidemark.access.guard import Guard
from tidemark.access.routes import routes
from tidemark.api import http
from tidemark.api.answers import Answers

door = Door.of()
app = App(
    Path(__file__).with_name("main.py"),
    routes=[*routes(door), *http.routes(door, Answers())],
    middleware=[Middleware(Guard, door=door)],
)
