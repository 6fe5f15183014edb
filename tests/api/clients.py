"""The SDK's own client of MCP, for a server in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.api.conftest import Server


@asynccontextmanager
async def mcp_client(server: Server, authorization: str, mode: Any = "auto") -> AsyncIterator[Client]:
    """A session over streamable HTTP with this header of a key."""
    transport = httpx2.ASGITransport(app=server.app)
    headers = {"authorization": authorization}
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers) as http,
        Client(streamable_http_client("http://localhost/mcp", http_client=http), mode=mode) as session,
    ):
        yield session
