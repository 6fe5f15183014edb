"""The HTTP endpoint for lines: what it takes, and what it refuses."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvicorn

from tests.importing import endpoint
from tests.importing.conftest import Record
from tests.importing.endpoint import TOKEN, Endpoint
from tidemark.ingest.connections import Connection
from tidemark.ingest.records import records_of
from tidemark.ingest.refusal import Budget, RefusedError
from tidemark.ingest.server import MOST_CONNECTIONS
from tidemark.local.process import wait_until
from tidemark.settings import Settings

BODY_BYTES = 200_000
BUFFER_BYTES = 500_000
NDJSON = "application/x-ndjson"
LINE = b'192.0.2.7 - - [21/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 512'

Read = Callable[[Settings], list[Record]]


@pytest.fixture(scope="module")
def topic(broker: Settings) -> Settings:
    return broker.changed(
        topic="log-ingest", ingest_body_bytes=BODY_BYTES, ingest_buffer_bytes=BUFFER_BYTES, log_level="debug"
    )


@pytest.fixture(scope="module")
def server(topic: Settings) -> Iterator[Endpoint]:
    with endpoint.running(topic) as there:
        yield there


@pytest.fixture
def added(topic: Settings, server: Endpoint, read: Read) -> Callable[[], list[Record]]:
    """The records that the test has added to the topic of all tests here."""
    known = read(topic)

    def new() -> list[Record]:
        rest = read(topic)
        for record in known:
            rest.remove(record)
        return rest

    return new


def test_plain_lines_are_in_kafka_when_they_are_acknowledged(
    server: Endpoint, added: Callable[[], list[Record]]
) -> None:
    body = LINE + b"\r\n" + b"\xff no text\n\n" + LINE + b" last"
    assert server.post(body)[:2] == (200, {"lines": 4})
    assert sorted(added()) == sorted([(LINE, {}), (b"\xff no text", {}), (b"", {}), (LINE + b" last", {})])


def test_parameters_are_the_headers_of_every_line(
    server: Endpoint, added: Callable[[], list[Record]]
) -> None:
    assert server.post(b"a\nb\n", "?site=my%20sh%C3%B6p&format=iis_w3c&fields=date%20time")[0] == 200
    headers = {"site": "my shöp".encode(), "format": b"iis_w3c", "fields": b"date time"}
    assert sorted(added()) == [(b"a", headers), (b"b", headers)]


def test_a_format_may_be_one_of_the_users() -> None:
    for ndjson, body, common in (
        (False, b"a", {"format": "mine"}),
        (True, b'{"line": "a", "format": "mine"}', {}),
    ):
        with Budget(BUFFER_BYTES).share() as share:
            records = records_of(
                body, ndjson=ndjson, common=common, key="", share=share, formats=("combined", "mine")
            )
        assert records == [(b"a", [("format", "mine")])]


def test_an_object_is_a_line_with_its_headers_or_the_line_itself(
    server: Endpoint, added: Callable[[], list[Record]]
) -> None:
    envelope = b'{"message": "GET", "host": "web-1", "id": 7}'
    lines = [
        json.dumps({"line": "one", "id": "x", "site": "shop", "format": "combined"}).encode(),
        b'{"message":"two","id":17}',
        b"  ",
        envelope,
        b'{"status": 200}',
    ]
    assert server.post(b"\n".join(lines), "?site=blog", Content_Type=NDJSON)[:2] == (200, {"lines": 4})
    assert sorted(added(), key=str) == sorted(
        [
            (b"one", {"id": b"x", "site": b"shop", "format": b"combined"}),
            (b"two", {"id": b"17", "site": b"blog"}),
            (envelope, {"site": b"blog"}),
            (b'{"status": 200}', {"site": b"blog"}),
        ],
        key=str,
    )


def test_an_idempotency_key_gives_each_line_an_id(
    server: Endpoint, added: Callable[[], list[Record]]
) -> None:
    for body in (b"a\na\n", gzip.compress(b"a\na\n"), b"a\nb\n"):
        kind = {"Content_Encoding": "gzip"} if body[:1] != b"a" else {}
        assert server.post(body, Idempotency_Key="batch-7", **kind)[0] == 200
    ids = [headers["id"] for _, headers in added()]
    # Two lines that are alike are two; the same line sent again is one; another body with the key hides no line.
    assert len(ids) == 6 and len(set(ids)) == 3
    assert all(name.startswith(b"batch-7:") for name in ids)


def cri(tag: str, content: str) -> str:
    return f"2026-11-21T10:00:00.1Z stdout {tag} {content}"


def test_parts_of_a_line_in_one_request_are_one_line(
    server: Endpoint, added: Callable[[], list[Record]]
) -> None:
    lines = [cri("P", "a"), cri("F", "b"), cri("P", "c")]
    assert server.post("\n".join(lines).encode())[:2] == (200, {"lines": 2})
    # The last part may be in the next request, of which nothing is known here.
    assert sorted(added()) == [(cri("F", "ab").encode(), {}), (cri("P", "c").encode(), {})]


def test_joined_parts_have_the_headers_and_the_number_of_the_first_one() -> None:
    objects = [
        {"line": cri("P", "a"), "site": "shop", "id": "1"},
        {"line": cri("P", "b"), "site": "blog"},
        {"line": cri("F", "c"), "site": "shop", "id": "3"},
        {"line": cri("F", "d"), "site": "blog"},
    ]
    body = "\n".join(map(json.dumps, objects)).encode()
    with Budget(BUFFER_BYTES).share() as share:
        records = records_of(body, ndjson=True, common={}, key="k", share=share)
    assert [line.decode() for line, _ in records] == [cri("F", "ac"), cri("F", "bd")]
    shop, blog = (dict(headers) for _, headers in records)
    assert shop == {"site": "shop", "id": "1"}
    assert blog["site"] == "blog" and str(blog["id"]).startswith("k:2:")


def test_the_headers_of_every_record_count_as_memory() -> None:
    with Budget(BUFFER_BYTES).share() as share:
        records_of(b"\n" * 100, ndjson=False, common={}, key="", share=share)
        small = share.size
        with pytest.raises(RefusedError, match="too much memory"):
            records_of(b"\n" * 100, ndjson=False, common={"fields": "f" * 4000}, key="", share=share)
        records_of(b"\n" * 100, ndjson=False, common={}, key="k" * 255, share=share)
        assert share.size > 2 * small + 100 * 255


def test_gzip_and_chunks(server: Endpoint, added: Callable[[], list[Record]]) -> None:
    body = gzip.compress(b"a\nb") + gzip.compress(b"") + gzip.compress(b"c\n")
    assert server.post(iter([body[:30], body[30:]]), Content_Encoding="gzip")[:2] == (200, {"lines": 2})
    assert server.post(b"")[:2] == (200, {"lines": 0})
    assert sorted(added()) == [(b"a", {}), (b"bc", {})]


REFUSED: dict[str, tuple[int, str, bytes | None, dict[str, str]]] = {
    "no token": (401, "Authorization: Bearer", LINE, {"Authorization": ""}),
    "another token": (401, "Authorization: Bearer", LINE, {"Authorization": "Bearer planted-tokem"}),
    "a token of another scheme": (401, "Bearer", LINE, {"Authorization": f"Basic {TOKEN}"}),
    "another method": (405, "use POST /lines", None, {"method": "GET"}),
    "too large": (413, "ingest_body_bytes", b"x" * (BODY_BYTES + 1), {}),
    "too many lines": (413, "fewer lines", b"\n" * 1_000, {}),
    "no gzip": (400, "not gzip", LINE, {"Content_Encoding": "gzip"}),
    "half of a gzip": (400, "truncated", gzip.compress(LINE)[:40], {"Content_Encoding": "gzip"}),
    "bytes after a gzip": (400, "not gzip", gzip.compress(LINE) + b"more", {"Content_Encoding": "gzip"}),
    "another encoding": (415, "zstd", LINE, {"Content_Encoding": "zstd"}),
    "another type": (415, "application/x-www-form-urlencoded", LINE,
                     {"Content_Type": "application/x-www-form-urlencoded"}),
    "no JSON": (400, "line 2: not a JSON object", b'{"line":"a"}\nb', {"Content_Type": NDJSON}),
    "no object": (400, "line 1: not a JSON object", b"[1]", {"Content_Type": NDJSON}),
    "no JSON value": (400, "line 1: not a JSON object: NaN", b'{"a":NaN}', {"Content_Type": NDJSON}),
    "no UTF-8": (400, "line 1: not a JSON object", b'{"a":"\xff"}', {"Content_Type": NDJSON}),
    "deep JSON": (400, "too many levels", b'{"a":' * 30_000, {"Content_Type": NDJSON}),
    "half a character": (400, "line 1: half of a surrogate", b'{"line":"\\ud800"}', {"Content_Type": NDJSON}),
    "a line that is no string": (400, "line 1: line must be a string", b'{"line":1}', {"Content_Type": NDJSON}),
    "an id that is no string": (400, "id must be a string", b'{"line":"a","id":[]}', {"Content_Type": NDJSON}),
    "an unknown key": (400, "unknown key 'sit'", b'{"line":"a","sit":"b"}', {"Content_Type": NDJSON}),
    "an unknown format": (400, "unknown format 'clf'", b'{"line":"a","format":"clf"}', {"Content_Type": NDJSON}),
    "no site": (400, "is not a site name", LINE, {"query": "?site="}),
    "an unknown parameter": (400, "'sit' is unknown", LINE, {"query": "?sit=shop"}),
    "a parameter twice": (400, "'site' is given twice", LINE, {"query": "?site=a&site=b"}),
    "a parameter that is no text": (400, "not UTF-8", LINE, {"query": "?site=%ff"}),
    "long fields": (400, "fields has more than 4,096", LINE, {"query": f"?fields={'a' * 4097}"}),
    "long fields of a line": (400, "line 1: fields has more", json.dumps({"line": "a", "fields": "a" * 4097}).encode(),
                              {"Content_Type": NDJSON}),
    "a long key": (400, "Idempotency-Key", LINE, {"Idempotency_Key": "k" * 256}),
}  # fmt: skip


def test_a_refusal_says_why_and_sends_nothing(server: Endpoint, added: Callable[[], list[Record]]) -> None:
    for name, (status, message, body, given) in REFUSED.items():
        answer = server.post(body, **given)  # type: ignore[arg-type]
        assert answer[0] == status and message in str(answer[1]["error"]), (name, answer)
    assert server.post(LINE)[0] == 200
    assert added() == [(LINE, {})]


def test_a_decompression_bomb_takes_no_memory(server: Endpoint) -> None:
    bomb = gzip.compress(bytes(100_000_000))
    assert len(bomb) < BODY_BYTES
    status, content, _ = server.post(bomb, Content_Encoding="gzip")
    assert status == 413 and "decompressed" in str(content["error"])
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text())
    assert peak and int(peak[1]) < 130_000


@pytest.mark.parametrize(
    ("head", "status"),
    [("GET / HTTP/1.1", 404), (f"POST /lines HTTP/1.1\r\nAuthorization: Bearer {TOKEN}", 411), ("GET", 400)],
)
def test_requests_that_no_client_makes(server: Endpoint, head: str, status: int) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 30) as raw:
        raw.sendall(f"{head}\r\nHost: a\r\n\r\n".encode())
        assert raw.recv(1000).startswith(f"HTTP/1.1 {status} ".encode())


def test_connections_without_a_request_keep_nobody_out(server: Endpoint) -> None:
    with ExitStack() as opened:
        for number in range(MOST_CONNECTIONS + 50):
            silent = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), 60))
            if number % 3 == 0:
                silent.sendall(b"POST /lines HTTP/1.1\r\nHost: a\r\n")
        assert server.post(LINE)[0] == 200


async def _no_content(scope: object, receive: object, send: Callable[..., Awaitable[None]]) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


def test_a_connection_is_closed_when_a_request_head_takes_too_long() -> None:
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    async def received(port: int, sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        return answer

    async def answers() -> list[bytes]:
        config = uvicorn.Config(_no_content, http=Connection, lifespan="off", log_config=None)
        config.timeout_keep_alive = 0.2  # type: ignore[assignment]
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve([listener]))
            port = listener.getsockname()[1]
            closed = await asyncio.gather(
                received(port, b""), received(port, request[:20]), received(port, request + request[:20])
            )
            server.should_exit = True
            await serving
        return closed

    silent, half, second_half = asyncio.run(answers())
    assert silent == half == b""
    assert second_half.count(b"HTTP/1.1") == 1 and second_half.startswith(b"HTTP/1.1 204")


def opened(server: Endpoint, length: int) -> socket.socket:
    """A connection with a request of which nothing but the head was sent."""
    raw = socket.create_connection(("127.0.0.1", server.port), 60)
    head = f"POST /lines HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n\r\n"
    raw.sendall(head.encode())
    return raw


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 30).close()
    except ConnectionRefusedError:
        return False
    except ConnectionResetError:
        pass
    return True


def test_sigterm_finishes_the_requests_under_way(topic: Settings, tmp_path: Path, read: Read) -> None:
    settings = topic.changed(topic="log-ingest-stopped")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with endpoint.running(
        settings, TIDEMARK_INGEST_TOKEN="", TIDEMARK_INGEST_TOKEN_FILE=str(tmp_path / "token")
    ) as server:
        assert server.post(b"")[0] == 200
        raw = opened(server, 4)
        raw.sendall(b"a\n")
        server.process.terminate()
        # It stops listening, and answers all the same.
        assert wait_until(lambda: not listens(server.port), 60)
        raw.sendall(b"b\n")
        assert raw.recv(1000).startswith(b"HTTP/1.1 200 ")
        raw.close()
        code, output = server.stop()
        assert code == 0 and output.splitlines() == ["tidemark: stopped"]
        assert sorted(read(settings)) == [(b"a", {}), (b"b", {})]


@pytest.mark.parametrize(
    ("environment", "code", "message"),
    [
        ({"TIDEMARK_INGEST_PORT": "{taken}"}, 1, "port {taken} of 127.0.0.1, which the endpoint is to listen on"),
        ({"TIDEMARK_INGEST_ADDRESS": "0.0.0.0"}, 2, "everybody who reaches 0.0.0.0 could send lines"),
        (
            {"TIDEMARK_INGEST_ADDRESS": "203.0.113.9", "TIDEMARK_INGEST_PORT": "8688", "TIDEMARK_INGEST_TOKEN": "a"}, 1,
            "cannot listen on 203.0.113.9: ",
        ),
        ({"TIDEMARK_INGEST_TOKEN_FILE": "/nonexistent"}, 1, "cannot read the token in /nonexistent"),
        ({"TIDEMARK_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, 1, "Kafka at 127.0.0.1:1 cannot be reached"),
    ],
    ids=["port", "open to all", "address", "token", "Kafka"],
)  # fmt: skip
def test_a_start_that_fails_says_why(
    topic: Settings, server: Endpoint, environment: dict[str, str], code: int, message: str
) -> None:
    given = {name: value.format(taken=server.port) for name, value in environment.items()}
    process = endpoint.command(topic, **given)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert error.startswith(f"tidemark: {message.format(taken=server.port)}") and error.count("\n") == 1, (
        error
    )


def test_without_a_token_no_page_of_a_browser_sends_lines(topic: Settings) -> None:
    with endpoint.running(topic, TIDEMARK_INGEST_TOKEN="") as there:
        port = there.port
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": f"http://127.0.0.1:{port}"},
            {"Host": "evil.example"},
        ):
            status, content, _ = there.post(LINE, Authorization="", **headers)
            assert status == 403 and "ingest_token" in str(content["error"]), headers
        assert there.post(LINE, Authorization="", Host=f"localhost:{port}")[0] == 200
        assert there.post(LINE, Authorization="")[0] == 200


def test_a_token_is_never_shown(server: Endpoint, topic: Settings) -> None:
    assert TOKEN not in str(topic.changed(ingest_token=TOKEN).public())
    shown = subprocess.run(
        ["ps", "-o", "args=", "-p", str(server.process.pid)], capture_output=True, text=True, check=True
    )
    assert TOKEN not in shown.stdout
