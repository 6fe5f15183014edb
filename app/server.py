"""The dashboard's server, one ASGI application behind one guard: `streamlit run app/server.py`, with TIDEMARK_HOME in
the environment. Further routes, such as those of an API, belong into `routes`."""

from __future__ import annotations

from pathlib import Path

from starlette.middleware import Middleware
from streamlit.starlette import App

from tidemark.access.door import Door
from tidemark.access.guard import Guard
from tidemark.access.routes import routes

door = Door.of()
app = App(Path(__file__).with_name("main.py"), routes=routes(door), middleware=[Middleware(Guard, door=door)])
