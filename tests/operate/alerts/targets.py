"""Real targets of notifications on loopback: an HTTP endpoint and an SMTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tidemark.local.ports import free_port


@dataclass
class Endpoint:
    """Takes JSON by POST, or answers 503 while `broken`, or if its `topic` is refused."""

    broken: bool = False
    refused: str = ""
    port: int = 0
    taken: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.port}/5ecre7"


@contextmanager
def http_endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.requests += 1
            broken = endpoint.broken or body.get("topic", "") == endpoint.refused != ""
            if not broken:
                endpoint.taken.append(body)
            self.send_response(503 if broken else 200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Mailbox:
    """Mails that an SMTP server took from the user `ops` with the password `5ecre7`, not for `refused` addresses."""

    port: int = 0
    refused: set[str] = field(default_factory=set)
    mails: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"mailto://ops:5ecre7@127.0.0.1:{self.port}?from=tidemark@shop.example&to=ops@shop.example&mode=insecure"

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return "550 No such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append(envelope.content.decode())
        return "250 OK"


@contextmanager
def smtp_server() -> Iterator[Mailbox]:
    mailbox = Mailbox(free_port())

    def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=(data.login, data.password) == (b"ops", b"5ecre7"))

    controller = Controller(
        mailbox, hostname="127.0.0.1", port=mailbox.port, authenticator=authenticate, auth_required=True,
        auth_require_tls=False,
    )  # fmt: skip
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()
