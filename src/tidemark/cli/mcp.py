"""`tidemark mcp`: the tools of MCP over standard input and output."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, cast

import click

from tidemark.cli import home_options, settings_of
from tidemark.cli.report import reader_of
from tidemark.errors import PlatformError
from tidemark.figures.right import ROLES, Right, Role


@click.command("mcp")
@home_options
@click.option("--site", "sites", multiple=True, help="Only this site; repeatable (default: all).")
@click.option(
    "--role",
    type=click.Choice(ROLES[:2]),
    default="analyst",
    help="viewer: figures only; analyst: single requests and their lines, too (default).",
)
@click.pass_context
def mcp_command(ctx: click.Context, /, sites: tuple[str, ...], role: str, **home: Any) -> None:
    """Answer a model's questions by MCP on standard input and output: a tool for each report.

    Reads the tables as they are, beside a running pipeline. docs/api.md shows how a client starts it.
    """
    if find_spec("mcp") is None:
        raise PlatformError("the MCP SDK is not installed", "Install it: pip install 'tidemark[dashboard]'.")
    settings = settings_of(ctx, **home)
    import anyio
    from mcp.server.stdio import stdio_server

    from tidemark.access.asking import Asking
    from tidemark.api.answers import Answers
    from tidemark.api.tools import server

    asking = Asking("", Right.of(cast("Role", role), sites), "none")
    tools = server(Answers(lambda: reader_of(settings)), lambda request: asking)

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await tools.run(reading, writing, tools.create_initialization_options())

    anyio.run(serve)
