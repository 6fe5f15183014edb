"""A home of two sites whose server is asked in process: the API and MCP behind the real guard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from tests.app import lakehouse
from tests.app.scene import line_of
from tidemark.access.door import Door
from tidemark.access.guard import Guard
from tidemark.access.routes import routes
from tidemark.api import http
from tidemark.api.answers import Answers, Limits
from tidemark.figures.reader import Reader
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.right import Role

MINE, OTHER = "a.example", "b.example"
RANGE = {"from": "2026-03-01", "to": "2026-04-01"}
DECLARED = """
[access]
login = "password"
[goals.read]
path = "/a*"
[goals.other]
path = "/a"
site = "b.example"
[funnels.reading]
steps = ["/*", "goal:read"]
"""
# A value of the parameter that a report cannot do without.
ARGUMENTS = {"funnel": "reading", "explain": "not_found"}
# No test but those of limits reaches one.
WIDE = Limits(per_minute=100_000, fresh_seconds=0.0, patience_seconds=60.0)


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    """Those of three days, and one of each site long before, so that every range has a period before."""
    rows = lakehouse.requests(seed=3)
    first = {row["site"]: row for row in reversed(rows)}.values()
    early = {"event_time": datetime(2026, 1, 1, tzinfo=UTC), "kafka_timestamp": None}
    added = [{**row, **early, "offset": len(rows) + i} for i, row in enumerate(first)]
    return [*rows, *added]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> Path:
    directory = tmp_path_factory.mktemp("home")
    lakehouse.build(directory, rows)
    lakehouse.write(directory, "bronze.access_log", [line_of(row) for row in rows])
    alert = {"rule": "errors", "window_start": lakehouse.START, "state": "ended", "value": 0.5, "bound": 0.1,
             "ended_at": lakehouse.START, "due": False}  # fmt: skip
    lakehouse.write(directory, "quality.alerts", [{**alert, "site": site} for site in (MINE, OTHER)])
    lakehouse.write(
        directory,
        "quality.alert_rules",
        [{"rule": "errors", "site": site, "state": "ok"} for site in (MINE, OTHER)],
    )
    reported = {"day": lakehouse.START, "metric": "requests", "value": 7.0, "reported_at": lakehouse.START}
    lakehouse.write(
        directory,
        "quality.reported",
        [{**reported, "site": site, "cause": "day over"} for site in (MINE, OTHER)],
    )
    (directory / "tidemark.toml").write_text(DECLARED)
    return directory


@dataclass(frozen=True)
class Server:
    """The server of a home, and the keys of tests."""

    door: Door
    answers: Answers
    app: Starlette

    def key(self, role: Role = "analyst", *sites: str) -> str:
        name = f"{role} {' '.join(sites)}".strip().replace(" ", "-")
        if name in {key.name for key in self.door.keys.all()}:
            self.door.keys.revoke(name)
        return self.door.keys.add(name, role, sites, None)

    def client(self, role: Role = "analyst", *sites: str) -> TestClient:
        """A client with a key of this right."""
        client = TestClient(self.app, base_url="http://localhost")
        client.headers["authorization"] = f"Bearer {self.key(role, *sites)}"
        return client

    def recorded(self) -> list[tuple[str, str, str]]:
        """Who did what to what, by the record of access."""
        self.door.audit.write()
        rows = DeltaTable(self.door.audit.path).to_pyarrow_table().to_pylist()
        return [(row["who"], row["what"], row["object"]) for row in rows]


def serve(home: Path, limits: Limits = WIDE, opened: Callable[[], Reader] | None = None) -> Server:
    door = Door(home)
    answers = Answers(opened or (lambda: DeltaReader(home)), limits)
    every = [*routes(door), *http.routes(door, answers)]
    return Server(door, answers, Starlette(routes=every, middleware=[Middleware(Guard, door=door)]))


@pytest.fixture(scope="session")
def server(home: Path) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TIDEMARK_TABLES_LOCATION", raising=False)
        yield serve(home)
