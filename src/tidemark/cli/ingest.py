"""`tidemark ingest`: an HTTP endpoint for lines."""

from __future__ import annotations

from typing import Any

import click

from tidemark.cli import door_of, home_options, settings_of


@click.command("ingest")
@home_options
@click.pass_context
def ingest_command(ctx: click.Context, /, **home: Any) -> None:
    """Take lines by HTTP and send them to Kafka, until stopped.

    POST /lines takes plain lines (text/plain) or one JSON object per line (application/x-ndjson), with or without
    gzip. It answers with 200 after Kafka has acknowledged all lines. The settings begin with `ingest_`.
    """
    from tidemark import logs
    from tidemark.ingest.server import serve
    from tidemark.local.broker import located

    settings = settings_of(ctx, **home)
    logs.configure(settings.watching)
    serve(located(settings).kafka, settings.ingest, tuple(settings.formats), door_of(settings))
