"""The HTTP endpoint acknowledges nothing that Kafka does not have, also if one of them is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from http.client import HTTPException

import pytest

from tests.conftest import QUICK_JVM
from tests.importing import endpoint
from tests.importing.conftest import Record
from tests.importing.endpoint import Answer, Endpoint
from tidemark.local import broker as embedded
from tidemark.local.process import wait_until
from tidemark.settings import Settings

Read = Callable[[Settings], list[Record]]

LINES = 500
# A request holds about 450,000 bytes until Kafka has acknowledged its lines.
MEMORY = {"ingest_buffer_bytes": 1_000_000, "ingest_timeout_seconds": 100.0}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A broker that these tests may stop."""
    home = tmp_path_factory.mktemp("own")
    settings = Settings.of(home=home, broker_port=0, broker_java_options=QUICK_JVM)
    with embedded.running(settings) as there:
        yield there


def pid(own: Settings) -> int:
    there = embedded.status(own)
    assert there is not None
    return there.pid


def body(request: int) -> bytes:
    return b"".join(b"request %d line %d %s\n" % (request, line, b"x" * 160) for line in range(LINES))


def by_id(records: list[Record]) -> dict[bytes, bytes]:
    """The lines that count: of those with the same id, one."""
    actual: dict[bytes, bytes] = {}
    for value, headers in records:
        assert actual.setdefault(headers["id"], value) == value
    return actual


def sent_again(server: Endpoint, request: int) -> tuple[int, dict[str, object]]:
    """The answer to a request that is sent until Kafka has it."""
    while True:
        status, content, headers = server.post(body(request), Idempotency_Key=f"request-{request}")
        if status not in (429, 503):
            return status, content
        assert int(headers["retry-after"]) > 0 and "again" in str(content["error"])


@contextmanager
def paused(own: Settings) -> Iterator[None]:
    """Kafka does not answer while the context is open."""
    os.kill(pid(own), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid(own), signal.SIGCONT)


def post_eight(server: Endpoint, clients: ThreadPoolExecutor) -> list[Future[Answer]]:
    """Returns when the first of the requests is refused: the others hold all the memory."""
    sent = [clients.submit(server.post, body(n), Idempotency_Key=f"request-{n}") for n in range(8)]
    first = wait(sent, return_when=FIRST_COMPLETED).done.pop()
    status, content, headers = first.result()
    assert status == 429 and int(headers["retry-after"]) > 0 and "later" in str(content["error"])
    return sent


def test_requests_wait_for_kafka_in_bounded_memory(own: Settings, read: Read) -> None:
    settings = own.changed(topic="log-waiting", **MEMORY)
    with endpoint.running(settings) as server, ThreadPoolExecutor(8) as clients:
        with paused(own):
            sent = post_eight(server, clients)
        answers = [each.result() for each in sent]
    assert {status for status, _, _ in answers} == {200, 429}, answers
    accepted = [line for n, answer in enumerate(answers) if answer[0] == 200 for line in body(n).splitlines()]
    assert sorted(value for value, _ in read(settings)) == sorted(accepted)


def test_an_endpoint_that_is_killed_has_acknowledged_nothing_that_kafka_lacks(
    own: Settings, read: Read
) -> None:
    settings = own.changed(topic="log-killed", **MEMORY)
    with endpoint.running(settings) as server, ThreadPoolExecutor(8) as clients, paused(own):
        sent = post_eight(server, clients)
        server.process.kill()
        for each in sent:
            assert isinstance(each.exception(), (OSError, HTTPException)) or each.result()[0] == 429
    with endpoint.running(settings) as server:
        for n in range(8):
            assert sent_again(server, n) == (200, {"lines": LINES})
    assert sorted(by_id(read(settings)).values()) == sorted(
        line for n in range(8) for line in body(n).splitlines()
    )


def test_a_broker_that_is_killed_gives_503_and_loses_nothing(own: Settings, read: Read) -> None:
    settings = own.changed(topic="log-broker-killed", ingest_timeout_seconds=1.0)
    with endpoint.running(settings) as server:
        assert sent_again(server, 0) == (200, {"lines": LINES})
        os.kill(pid(own), signal.SIGKILL)
        status, content, headers = server.post(body(1), Idempotency_Key="request-1")
        assert status == 503 and int(headers["retry-after"]) > 0
        assert "Kafka has not acknowledged every line" in str(content["error"])
        assert wait_until(lambda: embedded.status(own) is None, 60)
        embedded.start(own)
        for n in range(3):
            assert sent_again(server, n) == (200, {"lines": LINES})
        code, output = server.stop()
    assert code == 0 and "Traceback" not in output
    assert sorted(by_id(read(settings)).values()) == sorted(
        line for n in range(3) for line in body(n).splitlines()
    )
