"""`explain`, `import --infer` and `view` of objects, as a user runs them."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import processes
from tests.importing.bucket import Bucket, text
from tests.parse.infer_cases import CASES, requests
from tidemark.cli import tidemark
from tidemark.settings import Settings, load

Numbered = Callable[..., list[bytes]]


@pytest.fixture
def own_signals() -> Iterator[None]:
    """The handlers of signals as they were; an import sets its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def run(*arguments: str) -> str:
    """What a command prints."""
    result = CliRunner().invoke(tidemark, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_explain_looks_at_the_first_objects_that_are_selected(bucket: Bucket, numbered: Numbered) -> None:
    bucket.put("cdn/0.txt", b"this is no log line\n")
    for number in range(5):
        bucket.put(f"cdn/{number}.gz", gzip.compress(text(numbered(2, start=2 * number))))
    server = ["--endpoint", bucket.server.url]
    assert run("explain", f"{bucket.url}cdn/", *server, "--where", "*.gz").startswith("6 lines of common\n")
    assert run("explain", f"{bucket.url}cdn/4", *server, "--since", "1h").startswith("2 lines of common\n")


def test_explain_of_a_signed_url_does_not_repeat_the_signature(bucket: Bucket, numbered: Numbered) -> None:
    sign = bucket.server.client("s3").generate_presigned_url
    there, gone = (
        sign("get_object", Params={"Bucket": bucket.name, "Key": key}) for key in ("a.log.gz", "b.log.gz")
    )
    bucket.put("a.log.gz", gzip.compress(text(numbered(3))))
    assert run("explain", there).startswith("3 lines of common\n")
    result = CliRunner().invoke(tidemark, ["explain", gone])
    assert result.exit_code == 1
    error = str(result.exception or "") + result.output
    assert "b.log.gz does not exist" in error and "Signature" not in error


@pytest.mark.usefixtures("own_signals")
def test_the_layout_of_objects_is_inferred(
    bucket: Bucket, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [CASES[0].line(request).encode() for request in requests(200)]
    bucket.put("shop/1.log", text(lines[:100]))
    bucket.put("shop/2.log", text(lines[100:]))
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEMARK_BOOTSTRAP_SERVERS", settings.kafka.bootstrap_servers)
    monkeypatch.setenv("TIDEMARK_TOPIC", settings.kafka.topic)
    where = ("--endpoint", bucket.server.url, "--where", "shop/*", "--infer")
    saved, summary, formats = run("import", bucket.url, *where).splitlines()
    (name,) = load({}).formats
    assert saved.startswith(f"{bucket.url}shop/1.log: the layout ") and f"saved as the format {name}" in saved
    assert summary.startswith("2 objects: 200 lines added, 0 already there")
    assert formats == f"formats: {name} 200"


def test_a_view_of_objects(bucket: Bucket, numbered: Numbered, tmp_path: Path) -> None:
    for number in range(20):
        bucket.put(f"cdn/{number:02}.gz", gzip.compress(text(numbered(50, start=50 * number))))
    bucket.put("cdn/notes.txt", b"this is no log line\n")
    command = [sys.executable, "-m", "tidemark", "view", "--json", f"{bucket.url}cdn/"]
    options = ["--endpoint", bucket.server.url, "--where", "[01]*.gz"]
    done = processes.run(
        [*command, *options],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["files"], figures["lines"], figures["requests"]) == ([f"{bucket.url}cdn/"], 1000, 1000)
    assert not list((tmp_path / "tidemark" / "view").glob("*/view.json")), "tables of objects are not kept"
