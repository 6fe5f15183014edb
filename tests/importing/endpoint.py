"""Starts `tidemark ingest` as a process, and sends requests to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import processes
from tidemark.settings import Settings

TOKEN = "planted-token"

Answer = tuple[int, dict[str, object], dict[str, str]]


@dataclass
class Endpoint:
    """A running endpoint."""

    process: subprocess.Popen[str]
    port: int

    def post(
        self, body: bytes | Iterator[bytes] | None, query: str = "", *, method: str = "POST", **headers: str
    ) -> Answer:
        """Status, content and headers of the answer. The token is sent unless `Authorization` is given."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "text/plain", **named}
        client.request(method, f"/lines{query}", body, {name: value for name, value in sent.items() if value})
        answer = client.getresponse()
        content = json.loads(answer.read())
        client.close()
        return answer.status, content, dict(answer.headers)

    def stop(self) -> tuple[int, str]:
        """Exit code and standard error after SIGTERM."""
        self.process.terminate()
        _, output = self.process.communicate(timeout=60)
        return self.process.returncode, output


def command(settings: Settings, **more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, **settings.environment(), "TIDEMARK_INGEST_PORT": "0", **more}
    return processes.Popen(
        [str(Path(sys.executable).with_name("tidemark")), "ingest"],
        stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


@contextmanager
def running(settings: Settings, **more: str) -> Iterator[Endpoint]:
    """An endpoint with TOKEN that is ready; ends with the context."""
    process = command(settings, **{"TIDEMARK_INGEST_TOKEN": TOKEN, **more})
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        match = re.search(r"listening on http://127\.0\.0\.1:(\d+)/lines", line)
        assert match, line + process.stderr.read()
        yield Endpoint(process, int(match[1]))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()
