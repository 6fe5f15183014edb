"""A topic of its own for every test, and what a read-committed reader finds in it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests import processes
from tidemark.importing.file_import import Report
from tidemark.importing.importer import Options
from tidemark.importing.objects import ObjectOptions, import_objects
from tidemark.kafka import client as kafka
from tidemark.objects.listing import Selection
from tidemark.settings import Settings

if TYPE_CHECKING:
    from tests.importing.bucket import Bucket, Server

Record = tuple[bytes, dict[str, bytes]]


@pytest.fixture
def settings(broker: Settings) -> Settings:
    return broker.changed(topic=f"log-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def options(settings: Settings) -> Options:
    return Options(settings.kafka, say=lambda text: None)


@pytest.fixture
def read() -> Callable[[Settings], list[Record]]:
    """All committed records of a settings' topic: value and headers."""

    def read_topic(settings: Settings) -> list[Record]:
        kafka.await_committed(settings.kafka, settings.kafka.topic)
        ends = kafka.end_offsets(settings.kafka, settings.kafka.topic)
        consumer = Consumer(
            {
                **kafka.client_config(settings.kafka),
                "group.id": "test",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(settings.kafka.topic, partition, 0) for partition in ends])
        result: list[Record] = []
        open_partitions = set(ends)
        while open_partitions:
            message = consumer.poll(10)
            assert message is not None, "the topic cannot be read to its end"
            if message.error():
                if message.offset() >= ends[message.partition()]:
                    open_partitions.discard(message.partition())
                continue
            result.append((message.value() or b"", dict(message.headers() or [])))
        consumer.close()
        return result

    return read_topic


@pytest.fixture
def records(settings: Settings, read: Callable[[Settings], list[Record]]) -> Callable[[], list[Record]]:
    """All committed records of the test's topic."""
    return lambda: read(settings)


@pytest.fixture
def lines(records: Callable[[], list[Record]]) -> Callable[[], list[bytes]]:
    """The values of all committed records, sorted: partitions have no order among them."""
    return lambda: sorted(value for value, _ in records())


@pytest.fixture
def tidemark(settings: Settings) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts `tidemark import` with arguments, as a process of its own."""

    def start(*arguments: str | Path, **more: object) -> subprocess.Popen[bytes]:
        command = [str(Path(sys.executable).with_name("tidemark")), "import", *map(str, arguments)]
        environment = os.environ | {
            "TIDEMARK_HOME": str(settings.home),
            "TIDEMARK_BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
            "TIDEMARK_TOPIC": settings.kafka.topic,
        }
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment, **more}
        return processes.Popen(command, **pipes)  # type: ignore[call-overload,no-any-return]

    return start


@pytest.fixture
def numbered() -> Callable[..., list[bytes]]:
    """`numbered(count, start=0)`: that many distinct lines."""
    return lambda count, start=0: [
        b'192.0.2.7 - - [21/Nov/2026:10:00:00 +0000] "GET /page/%d HTTP/1.1" 200 512' % n
        for n in range(start, start + count)
    ]


@pytest.fixture
def write() -> Callable[..., Path]:
    """`write(path, lines, mode="wb")`: the lines, each with its line feed, to a file."""

    def to_file(path: Path, lines: list[bytes], mode: str = "wb") -> Path:
        with path.open(mode) as file:
            file.write(b"".join(line + b"\n" for line in lines))
        return path

    return to_file


@pytest.fixture(scope="session")
def object_server() -> Iterator[Server]:
    from tests.importing.bucket import server  # takes a second to import

    with server() as running:
        yield running


@pytest.fixture
def bucket(object_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A new bucket, and the credentials for it in the environment."""
    from tests.importing.bucket import ENVIRONMENT, Bucket

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    result = Bucket(object_server, f"logs-{uuid.uuid4().hex[:12]}")
    result.client.create_bucket(Bucket=result.name)
    yield result
    object_server.fault = None


@pytest.fixture
def imported(bucket: Bucket, options: Options) -> Callable[..., Report]:
    """Imports the objects of the bucket; `messages` gets its notices."""

    def run(path: str = "", messages: list[str] | None = None, queue: str = "", **selection: Any) -> Report:
        report = Report()
        say = (messages if messages is not None else []).append
        how = Options(options.kafka, say=say)
        wanted = ObjectOptions(bucket.server.url, Selection(**selection), queue)
        import_objects([bucket.url + path], how, wanted, report)
        return report

    return run
