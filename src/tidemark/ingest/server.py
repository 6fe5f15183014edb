"""`tidemark ingest`: serves the endpoint until a signal."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import InputError, PlatformError, SettingError
from tidemark.ingest.app import PATH, App
from tidemark.ingest.delivery import Delivery
from tidemark.kafka import client as kafka
from tidemark.local.ports import refused
from tidemark.settings.addresses import is_loopback
from tidemark.settings.sections import IngestSettings, KafkaSettings

if TYPE_CHECKING:  # takes a second to import, which only masked lines need
    from tidemark.privacy.door import Door

# With room for the other files of a process that may open 1,024, and for connections that are accepted at once.
MOST_CONNECTIONS = 800
_BACKLOG = 50
_HEAD_SECONDS = 20
log = logging.getLogger("tidemark.ingest")


def serve(
    settings: KafkaSettings,
    ingest: IngestSettings,
    own_formats: Collection[str] = (),
    door: Door | None = None,
) -> None:
    """Returns after SIGTERM or SIGINT, when the requests under way are answered. `own_formats`: the names of the
    user's formats. `door` masks the lines.

    Raises SettingError for an address without a token that other machines reach, InputError for an unreadable file of
    the token, PlatformError if the port is taken, KafkaError if Kafka cannot be reached.
    """
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise PlatformError("uvicorn is not installed", "Install `tidemark[ingest]`.") from error
    from tidemark.ingest.connections import Connection

    token = token_of(ingest)
    with _listening(ingest) as listener:
        kafka.require_reachable(settings)
        kafka.ensure_topic(settings, settings.topic)
        delivery = Delivery(settings, ingest)
        config = uvicorn.Config(
            App(ingest, token, delivery, own_formats, door),
            http=Connection,
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            backlog=_BACKLOG,
            timeout_keep_alive=_HEAD_SECONDS,
            timeout_graceful_shutdown=int(ingest.timeout_seconds) + 5,
        )
        server = uvicorn.Server(config)

        def stop(*_: object) -> None:
            server.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            # Uvicorn has handlers of its own while it runs; when it has stopped, it raises the signal again.
            signal.signal(number, stop)
        host, port = listener.getsockname()[:2]
        log.info("listening on http://%s:%d%s", f"[{host}]" if ":" in host else host, port, PATH)
        with delivery.polling():
            server.run(sockets=[listener])
    log.info("stopped")


def token_of(ingest: IngestSettings) -> str:
    """The token that requests must have, "" for none. Raises SettingError and InputError."""
    token = ingest.token
    if ingest.token_file:
        try:
            token = Path(ingest.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"cannot read the token in {ingest.token_file}", "Correct ingest_token_file."
            ) from error
        if not token:
            raise InputError(f"{ingest.token_file} has no token", "Write one into it.")
    if not token and not is_loopback(ingest.address):
        raise SettingError(
            f"everybody who reaches {ingest.address} could send lines",
            "Set ingest_token or ingest_token_file, or leave ingest_address at 127.0.0.1.",
        )
    return token


def _listening(ingest: IngestSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in ingest.address else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ingest.address, ingest.port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise refused(ingest.address, ingest.port, "the endpoint is to listen on", "ingest") from error
    return listener
