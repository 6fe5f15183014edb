"""The embedded broker: one Apache Kafka node, broker and controller in one, on 127.0.0.1."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.errors import PlatformError
from tidemark.local import broker_setup
from tidemark.local.process import (
    free_port,
    live_record,
    locked,
    port_is_free,
    prepare_home,
    process_mark,
    read_record,
    spawn,
    terminate,
    wait_until,
    write_record,
)
from tidemark.settings import Settings

START_SECONDS = 60.0
STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Broker:
    """A running embedded broker. `already_running`: it was there before `start` was called."""

    bootstrap_servers: str
    pid: int
    already_running: bool = False


def start(settings: Settings) -> Broker:
    """Starts the home's broker, unless it runs already, and returns when it answers.

    It goes on when the caller ends. Raises PlatformError if the port is taken, the home cannot be
    written, Java or the jars are missing, or Kafka does not come up.
    """
    prepare_home(settings)
    with locked(settings.run_directory / "broker.lock"):
        running = status(settings)
        if running:
            await_ready(running, settings, lambda: process_mark(running.pid) is not None)
            return running
        command, ports = _prepare(settings)
        # Kafka's log4j2 writes the log; this is for what the JVM says before, or instead.
        process = spawn(command, broker_setup.output_file(settings))
        write_record(_record_file(settings), process.pid, **ports)
        broker = Broker(f"127.0.0.1:{ports['port']}", process.pid)
        try:
            await_ready(broker, settings, lambda: process.poll() is None)
        except BaseException:
            terminate(process.pid, timeout=0)
            process.wait()
            write_record(_record_file(settings), **ports)
            raise
    return broker


def run_in_foreground(settings: Settings) -> None:
    """Becomes the home's broker: this process is replaced by Kafka. For a supervisor or a service manager.

    Raises PlatformError as `start` does, and if the broker runs already.
    """
    prepare_home(settings)
    with locked(settings.run_directory / "broker.lock"):
        running = status(settings)
        if running:
            raise PlatformError(
                f"the broker of {settings.home} runs already, on {running.bootstrap_servers}",
                "Stop it first: tidemark broker stop.",
            )
        command, ports = _prepare(settings)
        # exec keeps both the pid and the start time, so the record stays true.
        write_record(_record_file(settings), os.getpid(), **ports)
    os.execv(command[0], command)


def stop(settings: Settings) -> bool:
    """Stops the home's broker and waits until it has ended. False if it was not running."""
    running = status(settings)
    if running is None:
        return False
    terminate(running.pid, STOP_SECONDS)
    record = read_record(_record_file(settings))
    write_record(_record_file(settings), **{k: record[k] for k in ("port", "controller_port") if k in record})
    return True


def status(settings: Settings) -> Broker | None:
    """The home's broker if its process runs, answering or not yet; else None."""
    record = live_record(_record_file(settings))
    if record is None:
        return None
    return Broker(f"127.0.0.1:{record['port']}", record["pid"], already_running=True)


def bootstrap_servers(settings: Settings) -> str:
    """Address of the Kafka to use: the one set, or else the home's embedded broker, running or not.

    Raises PlatformError if the embedded broker is to take any free port and has never been started.
    """
    if settings.bootstrap_servers:
        return settings.bootstrap_servers
    running = status(settings)
    if running:
        return running.bootstrap_servers
    port = settings.broker_port or read_record(_record_file(settings)).get("port")
    if not port:
        raise PlatformError("the broker has not been started yet", "Start it: tidemark broker start.")
    return f"127.0.0.1:{port}"


def answers(bootstrap: str, timeout: float = 1.0) -> bool:
    """Whether a Kafka broker at `bootstrap` answers within `timeout` seconds."""
    configuration: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "error_cb": lambda _: None,
    }
    client = AdminClient(configuration)
    try:
        return bool(client.list_topics(timeout=timeout).brokers)
    except KafkaException:
        return False


def check_port(settings: Settings) -> None:
    """Raises PlatformError if the port that the broker is to listen on is taken."""
    if settings.broker_port and not port_is_free(settings.broker_port):
        raise PlatformError(
            f"port {settings.broker_port}, which the broker is to listen on, is taken",
            "Set TIDEMARK_BROKER_PORT (broker_port) to another port, or to 0 for any free one.",
        )


def await_ready(broker: Broker, settings: Settings, lives: Callable[[], bool]) -> None:
    """Returns when the broker answers. Raises PlatformError if it ends before, or takes too long."""
    port = int(broker.bootstrap_servers.rpartition(":")[2])

    def answering() -> bool:
        return not port_is_free(port) and answers(broker.bootstrap_servers)

    up = wait_until(lambda: not lives() or answering(), START_SECONDS)
    if not up or not lives():
        what = "ended" if not lives() else f"did not answer within {START_SECONDS:.0f} s"
        raise PlatformError(
            f"the broker {what} on starting: {broker_setup.last_error(settings)}",
            f"{broker_setup.log_file(settings)} tells more.",
        )


def _prepare(settings: Settings) -> tuple[list[str], dict[str, int]]:
    check_port(settings)
    known = read_record(_record_file(settings))
    ports = {
        "port": settings.broker_port or _known_or_free(known.get("port")),
        "controller_port": _known_or_free(known.get("controller_port")),
    }
    try:
        command = broker_setup.prepare(settings, ports["port"], ports["controller_port"])
    except OSError as error:
        raise PlatformError(
            f"cannot write the broker's directory in {settings.home}: {error.strerror}",
            "Give another directory with --home or TIDEMARK_HOME.",
        ) from error
    return command, ports


def _known_or_free(port: int | None) -> int:
    return port if port and port_is_free(port) else free_port()


def _record_file(settings: Settings) -> Path:
    return settings.run_directory / "broker.json"
