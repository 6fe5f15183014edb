"""The guard before an application that tells who asks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidemark.access.asking import HEADER, SCOPE, verified
from tidemark.access.door import Door
from tidemark.access.guard import Guard
from tidemark.access.routes import routes
from tidemark.figures.declared import FILE

PASSWORD = "correct horse battery"


def facts_of(request: HTTPConnection) -> dict[str, Any]:
    """Who asks, as the guard tells the application in the scope and in the header."""
    asking = request.scope[SCOPE]
    assert verified(request.headers[HEADER]) == asking
    sites = asking.right.sites
    return {
        "name": asking.name, "role": asking.right.role, "sites": None if sites is None else sorted(sites),
        "path": request.scope["path"],
    }  # fmt: skip


async def page(request: HTTPConnection) -> Response:
    return PlainTextResponse(json.dumps(facts_of(request)))


async def download(request: HTTPConnection) -> Response:
    return PlainTextResponse("a,b", headers={"content-disposition": 'attachment; filename="pages.csv"'})


async def socket(connection: WebSocket) -> None:
    await connection.accept()
    try:
        while True:
            await connection.receive_text()
            await connection.send_json(facts_of(connection))
    except WebSocketDisconnect:
        pass


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with people, whose passwords take some time to hash."""
    door = Door(tmp_path_factory.mktemp("people"))
    door.people.add("ana", "viewer", ("shop",), PASSWORD)
    door.people.add("ops", "admin", (), PASSWORD)
    return door.database.path


@pytest.fixture
def door(people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Door:
    """That of an empty home, where people log in with passwords: ana is a viewer of shop, ops an admin."""
    settings(tmp_path, 'login = "password"')
    shutil.copy2(people, tmp_path)
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    return Door.of()


def settings(home: Path, text: str) -> None:
    (home / FILE).write_text(f"[access]\n{text}\n")


def application(door: Door) -> Starlette:
    others = [
        Route("/media/{name}.csv", download),
        WebSocketRoute("/_stcore/stream", socket),
        Route("/{path:path}", page, methods=["GET", "POST"]),
    ]
    return Starlette(
        routes=[*routes(door), *others],
        middleware=[Middleware(Guard, door=door), Middleware(SessionMiddleware, secret_key="of a test")],
    )


def browser(door: Door, address: str = "127.0.0.1", scheme: str = "http") -> TestClient:
    """A client at an address that follows no redirection."""
    return TestClient(
        application(door), base_url=f"{scheme}://localhost", follow_redirects=False, client=(address, 50_000)
    )


@pytest.fixture
def client(door: Door) -> TestClient:
    return browser(door)


def log_in(client: TestClient, name: str = "ana", password: str = PASSWORD, **headers: str) -> Any:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return client.post("/login", data={"name": name, "password": password}, headers=named)
