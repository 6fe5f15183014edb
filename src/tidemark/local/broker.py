"""The embedded broker: Apache Kafka on 127.0.0.1, as one node or several, each broker and controller in one."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.errors import PlatformError, unwritable
from tidemark.local import broker_setup
from tidemark.local.broker_setup import Node
from tidemark.local.directories import prepare_home
from tidemark.local.locks import locked
from tidemark.local.ports import free_port, frees_up, port_is_free
from tidemark.local.process import process_mark, spawn, terminate, wait_until
from tidemark.local.records import is_live, live_record, read_record, write_record
from tidemark.settings import Settings

START_SECONDS = 60.0
STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Broker:
    """A running embedded broker. `pids` are those of its running nodes, `pid` the first of them.
    `already_running`: it ran before the call of `start`."""

    bootstrap_servers: str
    pid: int
    already_running: bool = False
    pids: tuple[int, ...] = ()


def start(settings: Settings) -> Broker:
    """Starts the home's broker, or those of its nodes that do not run, and returns when all answer.

    The broker continues when the caller ends. Raises PlatformError if a port is taken, the home cannot be
    written, Java or the jars are missing, or Kafka does not start.
    """
    prepare_home(settings)
    with locked(settings.run_directory / "broker.lock"):
        there = status(settings)
        if there and len(there.pids) == settings.broker.nodes:
            await_ready(there, settings, lambda: all(process_mark(pid) for pid in there.pids))
            return there
        nodes, commands = _prepare(settings)
        started = []
        for node, command in zip(nodes, commands, strict=True):
            if live_record(_record_file(settings, node.number)) is None:
                # Kafka's log4j2 writes the log; this file gets the JVM's own output.
                process = spawn(command, broker_setup.output_file(settings, node.part()))
                _record(settings, node, process.pid)
                started.append((node, process))
        broker = status(settings)
        if broker is None:
            node = started[0][0]
            raise PlatformError(
                f"the broker ended on starting: {broker_setup.last_error(settings, node.part())}",
                f"{broker_setup.log_file(settings, node.part())} tells more.",
            )

        def lives() -> bool:
            return all(process.poll() is None for _, process in started) and all(
                process_mark(pid) is not None for pid in broker.pids
            )

        try:
            await_ready(broker, settings, lives)
        except BaseException:
            for node, process in started:
                terminate(process.pid, timeout=0)
                process.wait()
                _record(settings, node)
            raise
    return Broker(broker.bootstrap_servers, broker.pid, already_running=False, pids=broker.pids)


def run_in_foreground(settings: Settings, number: int = 1) -> None:
    """Replaces this process by Kafka, as a node of the home's broker. For a supervisor or a service
    manager.

    Raises PlatformError like `start`, and if the node runs already.
    """
    prepare_home(settings)
    with locked(settings.run_directory / "broker.lock"):
        if live_record(_record_file(settings, number)):
            raise PlatformError(
                f"the broker of {settings.home} runs already, on {bootstrap_servers(settings)}",
                "Stop it first: tidemark broker stop.",
            )
        nodes, commands = _prepare(settings)
        # exec keeps the pid and the start time, so the record stays valid.
        _record(settings, nodes[number - 1], os.getpid())
    os.execv(commands[number - 1][0], commands[number - 1])


@contextmanager
def running(settings: Settings) -> Iterator[Settings]:
    """Runs the home's broker for the duration of the context; yields the settings with its address."""
    try:
        yield settings.changed(bootstrap_servers=start(settings).bootstrap_servers)
    finally:
        stop(settings)


def stop(settings: Settings) -> bool:
    """Stops the home's broker and waits until it has ended. False if it was not running."""
    numbers = _numbers(settings)
    records = {n: r for n in numbers if (r := live_record(_record_file(settings, n)))}
    # All at once: a node that is stopped alone hands over to the others, and the last two would wait forever.
    for record in records.values():
        with suppress(ProcessLookupError):
            os.kill(record["pid"], signal.SIGTERM)
    with ThreadPoolExecutor(max_workers=len(records) or 1) as threads:
        list(threads.map(lambda record: terminate(record["pid"], STOP_SECONDS), records.values()))
    for number, record in records.items():
        _record(settings, Node(number, record["port"], record["controller_port"]))
    return bool(records)


def status(settings: Settings) -> Broker | None:
    """The home's broker if one of its processes runs, whether it answers or not; else None."""
    records = _records(settings).values()
    pids = tuple(record["pid"] for record in records if is_live(record))
    if not pids:
        return None
    servers = ",".join(f"127.0.0.1:{record['port']}" for record in records if "port" in record)
    return Broker(servers, pids[0], already_running=True, pids=pids)


def bootstrap_servers(settings: Settings) -> str:
    """Address of the Kafka to use: the configured one, else the home's embedded broker, running or not.

    Raises PlatformError if the embedded broker uses any free port and has never been started.
    """
    if settings.kafka.bootstrap_servers:
        return settings.kafka.bootstrap_servers
    records = _records(settings)
    runs = any(map(is_live, records.values()))
    ports = [
        (not runs and _wanted(settings, number)) or record.get("port") for number, record in records.items()
    ]
    if not (runs or all(ports)):
        raise PlatformError("the broker has not been started yet", "Start it: tidemark broker start.")
    return ",".join(f"127.0.0.1:{port}" for port in ports if port)


def _records(settings: Settings) -> dict[int, dict[str, Any]]:
    """The records of all nodes, running or not, by number."""
    return {number: read_record(_record_file(settings, number)) for number in _numbers(settings)}


def located(settings: Settings) -> Settings:
    """The settings with an address of Kafka: the embedded broker's if they have none. Raises as `bootstrap_servers`."""
    if settings.kafka.bootstrap_servers:
        return settings
    kafka = replace(settings.kafka, bootstrap_servers=bootstrap_servers(settings), located=True)
    return replace(settings, kafka=kafka)


def answers(bootstrap: str, timeout: float = 1.0) -> bool:
    """Whether a Kafka broker at `bootstrap` answers within `timeout` seconds."""
    return _nodes_seen(bootstrap, timeout) > 0


def check_port(settings: Settings) -> None:
    """Raises PlatformError if a port of the broker is taken."""
    for number in _numbers(settings):
        port = _wanted(settings, number)
        if port and not live_record(_record_file(settings, number)) and not frees_up(port):
            raise PlatformError(
                f"port {port}, which the broker is to listen on, is taken",
                "Set TIDEMARK_BROKER_PORT (broker_port) to another port, or to 0 for any free one.",
            )


def await_ready(broker: Broker, settings: Settings, lives: Callable[[], bool]) -> None:
    """Returns when all nodes answer. Raises PlatformError if one ends before, or after a timeout."""
    ports = [int(server.rpartition(":")[2]) for server in broker.bootstrap_servers.split(",")]

    def answering() -> bool:
        return not any(map(port_is_free, ports)) and _nodes_seen(broker.bootstrap_servers) == len(ports)

    up = wait_until(lambda: not lives() or answering(), START_SECONDS)
    if not up or not lives():
        what = "ended" if not lives() else f"did not answer within {START_SECONDS:.0f} s"
        raise PlatformError(
            f"the broker {what} on starting: {broker_setup.last_error(settings)}",
            f"{broker_setup.log_file(settings)} tells more.",
        )


def _nodes_seen(bootstrap: str, timeout: float = 1.0) -> int:
    configuration: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "error_cb": lambda _: None,
    }
    try:
        return len(AdminClient(configuration).list_topics(timeout=timeout).brokers)
    except KafkaException:
        return 0


def _prepare(settings: Settings) -> tuple[Sequence[Node], list[list[str]]]:
    """The nodes with their ports, and the commands that start them. While any node runs, known ports stay, because
    the nodes know each other by them."""
    check_port(settings)
    numbers = _numbers(settings)
    stay = any(live_record(_record_file(settings, number)) for number in numbers)

    def port(record: dict[str, Any], name: str) -> int:
        known = record.get(name)
        return known if known and (stay or frees_up(known)) else free_port()

    nodes = []
    for number in numbers:
        record = read_record(_record_file(settings, number))
        own = _wanted(settings, number) or port(record, "port")
        nodes.append(Node(number, own, port(record, "controller_port")))
    try:
        for node in nodes:
            if live_record(_record_file(settings, node.number)) is None:
                shutil.rmtree(settings.home / "tmp" / node.part(), ignore_errors=True)
        commands = broker_setup.prepare(settings, nodes)
    except OSError as error:
        raise unwritable(
            f"cannot write the broker's directory in {settings.home}",
            error,
            "Name another directory with --home or TIDEMARK_HOME.",
        ) from error
    for node in nodes:
        if live_record(_record_file(settings, node.number)) is None:
            _record(settings, node)
    return nodes, commands


def _numbers(settings: Settings) -> range:
    return range(1, settings.broker.nodes + 1)


def _wanted(settings: Settings, number: int) -> int:
    """A node's port by the settings: consecutive ports for the nodes. 0: any free port."""
    return settings.broker.port + number - 1 if settings.broker.port else 0


def _record(settings: Settings, node: Node, pid: int | None = None) -> None:
    path = _record_file(settings, node.number)
    write_record(path, pid, port=node.port, controller_port=node.controller_port)


def _record_file(settings: Settings, number: int = 1) -> Path:
    return settings.run_directory / ("broker.json" if number == 1 else f"broker-{number}.json")
