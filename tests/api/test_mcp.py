"""MCP with the SDK's own client, over HTTP and over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.api.clients import mcp_client
from tests.api.conftest import MINE, RANGE, Server, serve
from tests.app import lakehouse
from tests.app.scene import line_of
from tidemark.figures.report_specs import ALL

WRONG = "https://a.example/news"


@pytest.fixture(scope="module")
def yesterday(tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A site where yesterday a page began to link to a path that is not there, which ten people followed."""
    home = tmp_path_factory.mktemp("yesterday")
    proto = next(row for row in lakehouse.requests() if not row["bot"] and row["site"] == MINE)
    usual = {
        "method": "GET",
        "path": "/",
        "status": 200,
        "pageview": True,
        "asset": False,
        "search_term": None,
    }
    missing = {"status": 404, "pageview": False}
    rows = [proto | usual | {"event_time": datetime.now(UTC) - timedelta(days=9), "visitor_id": "first"}]
    for back in (2, 1):
        noon = (datetime.now(UTC) - timedelta(days=back)).replace(hour=12, minute=0, second=0, microsecond=0)
        failed = [("/favicon.ico", None)] * 2 + [("/old-prices", WRONG)] * (10 if back == 1 else 0)
        sent = [usual] * 20 + [usual | missing | {"path": p, "referrer": r} for p, r in failed]
        rows += [proto | each | {"event_time": noon + timedelta(minutes=i), "visitor_id": f"visitor {i}"}
                 for i, each in enumerate(sent)]  # fmt: skip
    rows = [row | {"offset": i, "kafka_timestamp": row["event_time"]} for i, row in enumerate(rows)]
    lakehouse.build(home, rows, datetime.now(UTC))
    lakehouse.write(home, "bronze.access_log", [line_of(row) for row in rows])
    (home / "tidemark.toml").write_text('[access]\nlogin = "password"\n')
    return serve(home)


async def find_cause(session: Client) -> str:
    """Finds out why there were more 404s yesterday, by nothing but the tools: their descriptions and answers."""
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    [errors] = [tool for tool in tools.values() if "404" in (tool.description or "")]
    assert "yesterday" in errors.input_schema["properties"]["range"]["enum"]
    wrong = await session.call_tool(errors.name, {"range": "the day before yesterday"})
    assert wrong.is_error and "from and to" in wrong.content[0].text  # type: ignore[union-attr]

    today = datetime.now(UTC).date()
    before = {"from": str(today - timedelta(days=2)), "to": str(today - timedelta(days=1))}
    counts = []
    for period in (before, {"range": "yesterday"}):
        result = await session.call_tool(errors.name, {**period, "filter": ["status=404"]})
        counts.append({row["path"]: row["requests"] for row in rows_of(result, "rows")})
    more = {path: count - counts[0].get(path, 0) for path, count in counts[1].items()}
    path = max(more, key=lambda each: more[each])
    assert (path, more[path]) == ("/old-prices", 10) and more["/favicon.ico"] == 0
    [explain] = [tool for tool in tools.values() if "Why a metric changed" in (tool.description or "")]
    assert "not_found (404)" in explain.input_schema["properties"]["name"]["description"]
    result = await session.call_tool(explain.name, {"name": "not_found", "range": "yesterday"})
    pages = [row for row in rows_of(result, "rows") if row["dimension"] == "page"]
    assert (pages[0]["value"], pages[0]["change"]) == (path, 10)

    [lines] = [
        tool
        for tool in tools.values()
        if "referrer" in (tool.description or "") and "raw" in tool.description
    ]
    result = await session.call_tool(
        lines.name, {"range": "yesterday", "filter": [f"path={path}", "status=404"], "limit": 100}
    )
    referrers = {row["referrer"] for row in rows_of(result, "lines")}
    assert len(referrers) == 1 and all("/old-prices" in row["line"] for row in rows_of(result, "lines"))
    return str(referrers.pop())


def rows_of(result: Any, name: str) -> list[dict[str, Any]]:
    assert not result.is_error, result.content
    rows: list[dict[str, Any]] = result.structured_content[name]
    return rows


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_session_over_http_finds_the_cause(yesterday: Server, mode: str) -> None:
    header = f"Bearer {yesterday.key('analyst')}"

    async def session() -> str:
        async with mcp_client(yesterday, header, mode) as client:
            return await find_cause(client)

    assert asyncio.run(session()) == WRONG
    assert ("analyst", "raw lines opened", "/mcp") in yesterday.recorded()


def test_a_session_over_standard_input_finds_the_cause(yesterday: Server) -> None:
    home = str(yesterday.door.home)
    command = StdioServerParameters(command=sys.executable, args=["-m", "tidemark", "mcp", "--home", home])

    async def session() -> str:
        async with Client(stdio_client(command)) as client:
            return await find_cause(client)

    assert asyncio.run(session()) == WRONG


def with_session(server: Server, ask: Callable[[Client], Awaitable[Any]], *right: Any) -> Any:
    async def session() -> Any:
        async with mcp_client(server, server.client(*right).headers["authorization"]) as client:
            return await ask(client)

    return asyncio.run(session())


def test_a_tool_for_each_report_with_typed_parameters_and_meanings(server: Server) -> None:
    tools = with_session(server, lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == list(ALL)
    for tool in tools:
        assert tool.annotations.read_only_hint and tool.description
        properties = tool.input_schema["properties"]
        assert all(each["description"] and each["type"] for each in properties.values())
        answer = tool.output_schema["properties"]
        lists = [
            each["items"] for name, each in answer.items() if name != "limited" and each["type"] == "array"
        ]
        rows = [each.get("items", each) for each in lists]
        figures = [figure for row in rows for figure in row.get("properties", {}).values()]
        assert all(figure["description"] for figure in figures)
    by_name = {tool.name: tool for tool in tools}
    assert by_name["funnel"].input_schema["required"] == ["name"]
    assert by_name["retention"].input_schema["properties"]["by"]["enum"] == ["day", "week", "month"]
    viewers = with_session(server, lambda client: client.list_tools(), "viewer").tools
    assert set(by_name) - {tool.name for tool in viewers} == {"lines"}


@pytest.mark.parametrize(
    "tool, arguments, text",
    [
        ("lines", {"range": "7d"}, "for those with the role analyst"),
        ("overview", {}, "range=24h|7d"),
        ("overview", {"range": "7d", "path": "/a"}, "It takes site, from, to, range, filter, tz"),
        ("pages", {"range": "7d", "filter": "path"}, "field=value"),
        ("funnel", {"range": "7d", "name": "buy"}, "there are reading"),
        ("nothing", {}, "There are: overview"),
    ],
)
def test_an_error_says_how_to_repair_the_call(
    server: Server, tool: str, arguments: dict[str, Any], text: str
) -> None:
    result = with_session(server, lambda client: client.call_tool(tool, arguments), "viewer")
    assert result.is_error and text in result.content[0].text


def test_mcp_is_behind_the_guard(server: Server) -> None:
    client = server.client("viewer")
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert client.get("/mcp").status_code == 405
    foreign = client.post("/mcp", json=body, headers={"origin": "https://evil.example"})
    assert foreign.status_code == 403
    del client.headers["authorization"]
    assert client.post("/mcp", json=body).status_code == 401


def test_the_text_of_a_result_has_the_first_rows_only(server: Server, home: Path) -> None:
    arguments = {**RANGE, "limit": 150}
    result = with_session(server, lambda client: client.call_tool("lines", arguments))
    assert len(result.structured_content["lines"]) == 150
    assert '"shown": {"lines": "the first 100 of 150"}' in result.content[0].text
