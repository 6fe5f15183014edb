"""`tidemark ingest`: an HTTP endpoint for lines."""

from __future__ import annotations

import click

from tidemark.cli import door_of, with_settings
from tidemark.settings import Settings


@click.command("ingest")
@with_settings
def ingest_command(settings: Settings) -> None:
    """Take lines by HTTP and send them to Kafka, until stopped.

    POST /lines takes plain lines (text/plain) or one JSON object per line (application/x-ndjson), with or without
    gzip. It answers with 200 after Kafka has acknowledged all lines. The settings begin with `ingest_`.
    """
    from tidemark import logs
    from tidemark.ingest.server import serve
    from tidemark.local.broker import located

    logs.configure(settings.watching)
    serve(located(settings).kafka, settings.ingest, tuple(settings.formats), door_of(settings))
