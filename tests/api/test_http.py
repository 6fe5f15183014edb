"""The HTTP API: answers, errors, limits, and its document."""

from __future__ import annotations

import shutil
import threading
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from starlette.routing import Route

from tests.api.conftest import ARGUMENTS, MINE, OTHER, RANGE, WIDE, Server, serve
from tests.app import lakehouse
from tests.app.scene import line_of
from tidemark.api.answers import Limits
from tidemark.api.errors import TooLongError
from tidemark.api.openapi import API, parameters_of
from tidemark.figures.query import Query
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.report_specs import ALL, BY_NAME
from tidemark.local.process import wait_until


def address(name: str) -> str:
    return f"{API}/reports/{name}" if name in BY_NAME else f"{API}/{name}"


def asked(name: str, **more: Any) -> dict[str, Any]:
    """Parameters with which a report answers."""
    named = {p.name: ARGUMENTS[name] for p in ALL[name].parameters if p.argument}
    return {**(RANGE if ALL[name].common else {}), **named, **more}


@pytest.mark.parametrize(
    "path, status, error, remedy",
    [
        ("overview", 400, "from: the range is missing", "range=24h"),
        ("overview?from=2026-03-01", 400, "to: the range is missing", "range=24h"),
        ("overview?range=7days", 400, "range: '7days' is none of 24h", "reach back from now"),
        ("overview?range=7d&from=2026-03-01", 400, "range: it excludes", "from and to"),
        ("overview?from=2026-03-02&to=2026-03-01", 400, "to: the range ends before", "later"),
        ("overview?from=soon&to=2026-03-01", 400, "from: 'soon' is no time", "ISO 8601"),
        ("overview?from=0001-01-01&to=2026-03-01&tz=Asia/Tokyo", 400, "from: '0001-01-01' is out of", "1700"),
        ("overview?range=7d&filter=colour%3Dred", 400, "filter: no field 'colour'", "country"),
        ("overview?range=7d&tz=Mars", 400, "tz: there is no time zone 'Mars'", "Europe/Berlin"),
        ("overview?range=7d&site=c.example", 400, "site: there is no site", MINE),
        ("overview?range=7d&filters=x", 400, "filters: the report overview has no such", "filter?"),
        ("overview?range=7d&range=24h", 400, "range: there are 2 values", "one"),
        ("overview?range=7d&format=xml", 400, "format: 'xml'", "JSON"),
        ("overview?range=7d&limit=many", 400, "limit: 'many' is no whole number", "rows"),
        ("alerts?range=7d&filter=path%3D/", 400, "filter: the report alerts has no such", "site"),
        ("retention?range=7d&by=year", 400, "by: 'year'", "day"),
        ("paths?range=7d&from_page=/&to_page=/", 400, "from_page and to_page", "Leave one"),
        ("funnel?range=7d", 400, "name: the report funnel needs it", "funnel"),
        ("funnel?range=7d&name=x", 400, "name: no funnel 'x'; there are reading", "tidemark.toml"),
        ("overviews?range=7d", 404, "there is no report 'overviews'", "overview"),
        ("../nothing", 404, "there is no /api/v1/nothing", "openapi.json"),
    ],
)
def test_an_error_names_the_parameter_and_the_remedy(
    server: Server, path: str, status: int, error: str, remedy: str
) -> None:
    answer = server.client().get(f"{API}/reports/{path}")
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "remedy"}
    assert error in answer.json()["error"] and remedy in answer.json()["remedy"]


def test_who_may_not_ask(server: Server) -> None:
    client = server.client("viewer", MINE)
    refusals = [
        client.get(address("overview"), params=asked("overview", site=OTHER)),
        client.get(address("lines"), params=RANGE),
        client.post(address("overview")),
    ]
    assert [each.status_code for each in refusals] == [403, 403, 403]
    del client.headers["authorization"]
    refusals.append(client.get(address("overview"), params=RANGE))
    client.headers["authorization"] = "Bearer tm_unknown"
    refusals.append(client.get(address("overview"), params=RANGE))
    assert [each.status_code for each in refusals[3:]] == [401, 401]
    assert all(set(each.json()) == {"error", "remedy"} and each.json()["remedy"] for each in refusals)


def test_the_document_describes_every_route_and_every_answer(server: Server) -> None:
    client = server.client()
    document = client.get(f"{API}/openapi.json").json()
    described = {path.removeprefix(API) for path in document["paths"]}
    routed = {route.path.removeprefix(API) for route in server.app.routes if isinstance(route, Route)
              and route.path.startswith(f"{API}/")}  # fmt: skip
    assert described - {address(name).removeprefix(API) for name in BY_NAME} == routed - {"/reports/{name}"}
    assert [each["name"] for each in client.get(f"{API}/reports").json()["reports"]] == list(BY_NAME)
    for name, spec in ALL.items():
        operation = document["paths"][address(name)]["get"]
        names = [p["name"] for p in operation["parameters"]]
        assert names == [*(p.name for p in parameters_of(spec)), "format"]
        answer = client.get(address(name), params=asked(name, limit=500))
        assert answer.status_code == 200, answer.text
        jsonschema.validate(answer.json(), document["components"]["schemas"][name])
        assert client.get(address(name), params=asked(name, unknown="1")).status_code == 400


def test_an_answer_has_a_tag_until_a_table_changes(
    home: Path, tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    shutil.copytree(home, tmp_path / "home")
    client = serve(tmp_path / "home").client()

    def get(tag: str = "", **params: str) -> Any:
        return client.get(address("errors"), params=RANGE | params, headers={"if-none-match": tag})

    first = get()
    tag = first.headers["etag"]
    again = get(tag)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    others = [get(format="csv"), get(site=MINE), get(filter="status=404")]
    assert len({tag, *(each.headers["etag"] for each in others)}) == 4
    # A table that the report does not read, then one that it does.
    lakehouse.write(tmp_path / "home", "quality.notes", [])
    assert get(tag).status_code == 304
    lakehouse.build(tmp_path / "home", rows[: len(rows) // 2])
    changed = get(tag)
    assert changed.status_code == 200 and changed.headers["etag"] != tag
    assert changed.json() != first.json()


def test_a_key_asks_so_often_in_a_minute(home: Path) -> None:
    server = serve(home, Limits(per_minute=3))
    client = server.client("viewer")
    assert [client.get(f"{API}/sites").status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = client.get(f"{API}/sites")
    assert 1 <= int(refused.headers["retry-after"]) <= 60 and "Wait" in refused.json()["remedy"]
    assert server.client("analyst").get(f"{API}/sites").status_code == 200


def test_lists_have_so_many_rows(home: Path) -> None:
    client = serve(home, Limits(rows=2)).client()
    answer = client.get(address("pages"), params=RANGE)
    assert answer.json()["limited"] == {"rows": {"shown": 2, "of": answer.json()["limited"]["rows"]["of"]}}
    assert len(answer.json()["rows"]) == 2 and answer.json()["limited"]["rows"]["of"] > 2
    assert (answer.headers["tidemark-row-limit"], answer.headers["tidemark-limited"]) == ("2", "rows")
    assert client.get(address("pages"), params=RANGE | {"limit": "1"}).json()["limited"]["rows"]["shown"] == 1
    assert client.get(address("pages"), params=RANGE | {"format": "csv"}).text.count("\n") == 3


class Waiting(DeltaReader):
    """Its queries wait until they are let `go`."""

    def __init__(self, home: Path, go: threading.Event, queries: list[str]) -> None:
        super().__init__(home)
        self.go = go
        self.queries = queries

    def arrow(self, q: Query) -> pa.Table:
        self.queries.append(q.table)
        with self._tables(q):
            self.go.wait(30)
        return super().arrow(q)

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        self.queries.append(q.table)
        self.go.wait(30)
        return super().coded(q, names)


def test_questions_have_a_time_and_so_many_wait(home: Path) -> None:
    go, queries = threading.Event(), list[str]()
    limits = Limits(seconds=20, at_once=1, waiting=2, fresh_seconds=0)
    server = serve(home, limits, lambda: Waiting(home, go, queries))
    client, running = server.client(), server.answers._running
    with client:
        go.set()
        assert client.get(f"{API}/sites").status_code == 200
        go.clear()
        queries.clear()
        server.answers.limits = replace(limits, seconds=0.3)
        # The first question's query goes on, and the second waits for it.
        for number, name in enumerate(("overview", "pages"), 1):
            while len(running) < number:
                late = client.get(address(name), params=RANGE)
                assert late.status_code == 503 and "longer than 0.3 s" in late.json()["error"]
                assert int(late.headers["retry-after"]) > 0
        server.answers.limits = limits
        busy = client.get(address("errors"), params=RANGE)
        assert busy.status_code == 503 and "2 questions wait" in busy.json()["error"]
        # What is remembered needs no place.
        assert client.get(f"{API}/sites").status_code == 200
        left = list(running.values())
        go.set()
        errors = [each.exception(30) for each in left]
    # Neither went on after its time.
    assert [type(error) for error in errors] == [TooLongError, TooLongError]
    assert len(queries) == 1
    # A future wakes those that wait for it before it runs its callbacks.
    assert wait_until(lambda: not running, 60)


def test_a_question_that_would_wait_for_too_long_is_refused_at_once(home: Path) -> None:
    go, queries = threading.Event(), list[str]()
    limits = Limits(seconds=20, at_once=1, fresh_seconds=0)
    server = serve(home, limits, lambda: Waiting(home, go, queries))
    answers = server.answers
    with server.client() as client:
        go.set()
        assert client.get(address("overview"), params=RANGE).status_code == 200
        assert answers._usual > 0
        go.clear()
        answers._usual, answers.limits = 15.0, replace(limits, seconds=0.3)
        # Nothing runs, so it is computed, and goes on.
        while not answers._running:
            assert client.get(address("pages"), params=RANGE).status_code == 503
        answers.limits = limits
        queries.clear()
        refused = client.get(address("errors"), params=RANGE)
        assert refused.status_code == 503 and refused.json()["error"] == "1 questions wait for an answer"
        assert refused.headers["retry-after"] == "30" and "30 seconds" in refused.json()["remedy"]
        assert not queries
        go.set()


def test_an_answer_of_before_is_given_while_a_new_one_takes_long(
    home: Path, tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    shutil.copytree(home, tmp_path / "home")
    go, queries = threading.Event(), list[str]()
    go.set()
    limits = Limits(seconds=20, at_once=1, patience_seconds=0.2, fresh_seconds=0)
    server = serve(tmp_path / "home", limits, lambda: Waiting(tmp_path / "home", go, queries))
    with server.client() as client:

        def tag(name: str) -> str:
            return str(client.get(address(name), params=RANGE).headers["etag"])

        errors, pages = tag("errors"), tag("pages")
        lakehouse.build(tmp_path / "home", rows[: len(rows) // 2])
        go.clear()
        assert tag("errors") == errors
        # The new answer to the first question is still on its way, and the second one would have to wait for too long.
        server.answers._usual = 15.0
        assert tag("pages") == pages and len(server.answers._running) == 1
        server.answers.limits = replace(limits, stale_seconds=0)
        assert client.get(address("pages"), params=RANGE).status_code == 503
        server.answers.limits, server.answers._usual = limits, 0.0
        go.set()
        assert wait_until(lambda: tag("errors") != errors and tag("pages") != pages, 60)


def test_questions_about_other_ranges_share_the_rows_of_windows(home: Path) -> None:
    go, queries = threading.Event(), list[str]()
    go.set()
    client = serve(home, replace(WIDE, fresh_seconds=3600), lambda: Waiting(home, go, queries)).client()

    def visitors(minute: int) -> int:
        queries.clear()
        params = {**RANGE, "from": f"2025-12-01T10:00:{minute}"}
        return int(client.get(address("overview"), params=params).json()["visitors"])

    first = visitors(11)
    assert "gold/traffic" in queries
    # No line lies before the full hour.
    assert visitors(47) == first > 0
    assert queries == ["silver/sessions"]


def test_tables_that_are_not_made_yet(tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text('[access]\nlogin = "password"\n')
    missing = serve(tmp_path).client().get(address("overview"), params=RANGE)
    assert missing.status_code == 503 and "does not exist yet" in missing.json()["error"]
    assert int(missing.headers["retry-after"]) > 0


def test_an_error_of_the_server_is_one_of_the_api_too(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(DeltaReader):
        def arrow(self, q: Query) -> pa.Table:
            raise RuntimeError("no engine")

    answer = serve(home, opened=lambda: Broken(home)).client().get(address("pages"), params=RANGE)
    assert answer.status_code == 500 and set(answer.json()) == {"error", "remedy"}
    assert "no engine" in caplog.text and "no engine" not in answer.text


def test_lines_of_a_figure_page_by_page(server: Server, rows: list[dict[str, Any]]) -> None:
    client = server.client("analyst", MINE)
    params = RANGE | {"filter": ["path=/missing", "status=404"], "limit": "3"}
    listed: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(f"{API}/lines", params=params | ({"cursor": cursor} if cursor else {})).json()
        assert len(page["lines"]) == 3 or page["next"] is None
        listed += page["lines"]
        cursor = page["next"]
    wanted = [r for r in rows if (r["site"], r["path"], r["status"]) == (MINE, "/missing", 404)]
    assert sorted(each["offset"] for each in listed) == sorted(row["offset"] for row in wanted)
    lines = {row["offset"]: line_of(row)["value"].decode() for row in wanted}
    assert {each["offset"]: each["line"] for each in listed} == lines
    assert [each["event_time"] for each in listed] == sorted(
        (each["event_time"] for each in listed), reverse=True
    )
    [errors] = [r for r in client.get(address("errors"), params=RANGE).json()["rows"]
                if (r["path"], r["status"]) == ("/missing", 404)]  # fmt: skip
    assert errors["requests"] == len(listed) > 3
    made_up = (
        b'["9999-12-31T00:00:00+00:00", "a", 1, 2]',
        b'["0001-01-01T00:00:00", "a", 1, 2]',
        b'["2026-03-10T00:00:00+00:00", "\\ud800", 1, 2]',
        b'["2026-03-10T00:00:00+00:00", "a", Infinity, 2]',
        b"[" * 5000,
    )
    for cursor in ("abc", *(urlsafe_b64encode(text).decode() for text in made_up)):
        bad = client.get(f"{API}/lines", params=params | {"cursor": cursor})
        assert bad.status_code == 400 and bad.json()["error"].startswith("cursor:")
    assert ("analyst-a.example", "raw lines opened", "/api/v1/lines") in server.recorded()


def test_a_download_is_recorded(server: Server) -> None:
    answer = server.client("viewer").get(address("countries"), params=RANGE | {"format": "csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="countries.csv"'
    assert ("viewer", "download", "countries.csv") in server.recorded()
