"""The HTTP endpoint for monitoring: /metrics for Prometheus, /health for probes and alerts."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from tidemark.local.ports import refused
from tidemark.settings.sections import WatchingSettings

Health = Callable[[], dict[str, Any]]
log = logging.getLogger("tidemark.endpoint")


@contextmanager
def serving(settings: WatchingSettings, registry: CollectorRegistry, health: Health) -> Iterator[str]:
    """Serves while the context is open; yields its address, or "" if the settings disable it.

    `health` returns the JSON of /health: answered with 200 if its `status` is "ok", else with 503. Raises
    PlatformError if the port is taken, or the address is none of this machine.
    """
    if settings.metrics_port < 0:
        yield ""
        return
    server = _server(settings, registry, health)
    thread = threading.Thread(target=server.serve_forever, name="endpoint", daemon=True)
    thread.start()
    host, port = server.server_address[:2]
    address = f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"
    log.info("metrics and health at %s", address)
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()


def _server(settings: WatchingSettings, registry: CollectorRegistry, health: Health) -> ThreadingHTTPServer:
    class Server(ThreadingHTTPServer):
        daemon_threads = True
        allow_reuse_address = True
        address_family = socket.AF_INET6 if ":" in settings.metrics_address else socket.AF_INET

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Replaces the default, which prints a traceback. A client that disconnects is not an error."""
            error = sys.exception()
            if isinstance(error, (ConnectionError, TimeoutError)):
                log.debug("%s hung up: %s", client_address[0], error)
            else:
                log.error("a request of %s failed", client_address[0], exc_info=error)

    class Handler(BaseHTTPRequestHandler):
        server_version = "tidemark"
        sys_version = ""
        timeout = 10

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encode, content_type = choose_encoder(self.headers.get("Accept") or "")
                self._answer(200, content_type, encode(registry))
            elif path == "/health":
                state = health()
                status = 200 if state["status"] == "ok" else 503
                self._answer(status, "application/json", json.dumps(state).encode() + b"\n")
            else:
                self._answer(404, "text/plain; charset=utf-8", b"/metrics, /health\n")

        def _answer(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            log.debug(format, *args)

    try:
        return Server((settings.metrics_address, settings.metrics_port), Handler)
    except OSError as error:
        address, port = settings.metrics_address, settings.metrics_port
        raise refused(address, port, "the metrics are to be served on", "metrics") from error
