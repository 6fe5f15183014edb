"""MCP over streamable HTTP, without sessions: each request is answered by itself, with the rights of its sender."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from tidemark.access.asking import Asking, asking_of
from tidemark.access.door import Door
from tidemark.api.answers import Answers
from tidemark.figures.report_specs import LINES

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

Scope = MutableMapping[str, Any]
Endpoint = Callable[[Scope, Any, Any], Awaitable[None]]
MOST_BYTES = 1_000_000


class _Endpoint:
    """An ASGI application; a class, because Starlette takes functions for handlers of requests."""

    def __init__(self, mcp_server: Callable[[], Server[Any]]) -> None:
        self._server = mcp_server

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            remedy = "Send messages by POST; this server opens no stream and keeps no session."
            refusal = JSONResponse({"error": f"{scope['method']} is not for /mcp", "remedy": remedy}, 405)
            refusal.headers["allow"] = "POST"
            await refusal(scope, receive, send)
            return
        # Imported here: most dashboards are never asked, and it takes a second.
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        # The guard has compared host and origin.
        manager = StreamableHTTPSessionManager(
            self._server(), json_response=True, stateless=True, max_request_body_size=MOST_BYTES
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def mcp_endpoint(door: Door, answers: Answers) -> Endpoint:
    """The ASGI application at /mcp."""

    def who(request: Any) -> Asking:
        return asking_of(request.scope)

    def recorded(asking: Asking, name: str) -> None:
        if name == LINES.name and asking.how != "none":
            door.audit.record(asking, "raw lines opened", "/mcp")

    @cache
    def mcp_server() -> Server[Any]:
        from tidemark.api.tools import server

        return server(answers, who, recorded)

    return _Endpoint(mcp_server)
