"""The server of MCP: a tool for each report, and sites, definitions and lines. It reads only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import mcp.types as types
from mcp.server.lowlevel import Server

from tidemark import __version__
from tidemark.access.asking import Asking
from tidemark.api.answers import Answer, Answers
from tidemark.api.errors import problem
from tidemark.api.openapi import answer_schema, parameter_schema, parameters_of
from tidemark.errors import TidemarkError
from tidemark.figures.question import Values
from tidemark.figures.report_specs import ALL
from tidemark.figures.spec import ReportSpec

INSTRUCTIONS = (
    "Figures of web-server logs. `sites` lists the sites and the times that they have lines of. Each report is a tool; "
    "it needs a range: `range` (such as yesterday), or `from` and `to`. To explain a change, ask a report for both "
    "periods, narrow it by `filter`, and look at single requests with `lines`. `definitions` says what numbers mean."
)
# Most rows of a list in the text of a result; its structured content has all.
SHOWN = 100
# Who asks, by the request of HTTP that a call came with (None: standard input).
Who = Callable[[Any], Asking]
Recorded = Callable[[Asking, str], None]


def server(answers: Answers, who: Who, recorded: Recorded = lambda asking, name: None) -> Server[Any]:
    """The server. `recorded` gets every answered call: who asked, and the tool's name."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        right = who(ctx.request).right
        return types.ListToolsResult(tools=[tool(s) for s in ALL.values() if right.at_least(s.role)])

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        asking = who(ctx.request)
        try:
            answer = await answers.answer(asking, params.name, values_in(params.arguments or {}))
        except TidemarkError as error:
            about = problem(error)
            text = json.dumps({"error": about.error, "remedy": about.remedy})
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
        recorded(asking, params.name)
        text = json.dumps(shown(answer))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], structured_content=answer.json
        )

    return Server(
        "tidemark",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def tool(spec: ReportSpec) -> types.Tool:
    """The tool of a report."""
    parameters = parameters_of(spec)
    schema = {
        "type": "object",
        "properties": {p.name: {**parameter_schema(p), "description": p.about} for p in parameters},
        "required": [p.name for p in parameters if p.argument],
        "additionalProperties": False,
    }
    needs = " Needs range, or from and to." if spec.common else ""
    hints = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return types.Tool(
        name=spec.name,
        description=spec.about + needs,
        input_schema=schema,
        output_schema=answer_schema(spec),
        annotations=hints,
    )


def values_in(arguments: dict[str, Any]) -> Values:
    """The texts of the parameters in a call's arguments; a single value may stand for a list of one."""
    values = {}
    for name, value in arguments.items():
        each = value if isinstance(value, list) else [value]
        values[name] = [str(one) for one in each if one is not None]
    return values


def shown(answer: Answer) -> dict[str, Any]:
    """The answer with at most SHOWN rows in each list; `shown` says of which lists it has only the first ones."""
    lists = {n: rows for n, rows in answer.json.items() if isinstance(rows, list) and len(rows) > SHOWN}
    if not lists:
        return answer.json
    about = {name: f"the first {SHOWN} of {len(rows)}" for name, rows in lists.items()}
    return {**answer.json, **{name: rows[:SHOWN] for name, rows in lists.items()}, "shown": about}
