"""What Kafka needs before it can start: a formatted data directory, its configuration, its command line."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import uuid
from pathlib import Path

from tidemark.errors import PlatformError
from tidemark.local.jars import broker_jars
from tidemark.local.java import require_java
from tidemark.settings import Settings

MESSAGE_BYTES = 16 * 1024 * 1024


def prepare(settings: Settings, port: int, controller_port: int) -> list[str]:
    """Formats the home's data directory if that was not done yet, writes the configuration for these
    ports, and returns the command that starts Kafka.

    Raises PlatformError if Java or the jars are missing or formatting fails, and OSError if files cannot
    be written.
    """
    directory = settings.home / "broker"
    directory.mkdir(exist_ok=True)
    java, class_path = require_java(), os.pathsep.join(str(jar) for jar in broker_jars(settings))
    logging = directory / "log4j2.properties"
    logging.write_text(_logging(settings), encoding="utf-8")
    launch = [
        str(java), "-Xms128m", "-Xmx512m", "-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={settings.logs}/broker-crash-%p.log",
        f"-Dlog4j2.configurationFile={logging}", "-cp", class_path,
    ]  # fmt: skip
    data = directory / "data"
    if not data.is_dir():
        _format(launch, data, port, controller_port)
    configuration = directory / "server.properties"
    configuration.write_text(_properties(data, port, controller_port), encoding="utf-8")
    return [*launch, "kafka.Kafka", str(configuration)]


def log_file(settings: Settings) -> Path:
    """The broker's log, rolled by size."""
    return settings.logs / "broker.log"


def output_file(settings: Settings) -> Path:
    """What the broker's JVM writes itself: next to nothing, unless it cannot start."""
    return settings.logs / "broker.out"


def last_error(settings: Settings) -> str:
    """The most telling line of the broker's latest start, for an error message."""
    for path in (log_file(settings), output_file(settings)):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-200:]
        except FileNotFoundError:
            continue
        for line in reversed(lines):
            if re.match(r"^\S*(Exception|Error)\b.*: |^Error|^Caused by: ", line):
                return line
    return "it left no message"


def _format(launch: list[str], data: Path, port: int, controller_port: int) -> None:
    """Formats beside the final place and renames, so that a data directory is either usable or absent."""
    unfinished = data.with_name("data.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    configuration = data.with_name("format.properties")
    configuration.write_text(_properties(unfinished, port, controller_port), encoding="utf-8")
    # A leading "x" because an id that starts with "-" reads as an option; Kafka wants 16 bytes in base 64.
    cluster = "x" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
    done = subprocess.run(
        [*launch, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(configuration)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise PlatformError(f"cannot format the broker's data directory {data}: {said}", "Check the disk.")
    configuration.unlink()
    unfinished.rename(data)


def _properties(data: Path, port: int, controller_port: int) -> str:
    values = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        # A line in Kafka is there to stay; the topic says so too, whoever made it.
        "log.retention.ms": -1,
        "message.max.bytes": MESSAGE_BYTES,
        "replica.fetch.max.bytes": MESSAGE_BYTES,
        "replica.fetch.response.max.bytes": MESSAGE_BYTES,
        "socket.request.max.bytes": 4 * MESSAGE_BYTES,
        # One node, few clients.
        "default.replication.factor": 1,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        # A broker that was killed may register again only when its session has run out: 9 s by default.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        "num.recovery.threads.per.data.dir": 2,
    }
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _logging(settings: Settings) -> str:
    values = {
        "appenders": "file",
        "appender.file.type": "RollingFile",
        "appender.file.name": "FILE",
        "appender.file.fileName": log_file(settings),
        "appender.file.filePattern": f"{settings.logs}/broker-%i.log",
        "appender.file.layout.type": "PatternLayout",
        "appender.file.layout.pattern": "%d{yyyy-MM-dd HH:mm:ss,SSS}{UTC} %p %m (%c{1})%n",
        "appender.file.policies.type": "Policies",
        "appender.file.policies.size.type": "SizeBasedTriggeringPolicy",
        "appender.file.policies.size.size": "10MB",
        "appender.file.strategy.type": "DefaultRolloverStrategy",
        "appender.file.strategy.max": 3,
        "rootLogger.level": "warn",
        "rootLogger.appenderRefs": "file",
        "rootLogger.appenderRef.file.ref": "FILE",
    }
    return "status=error\n" + "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _escaped(value: object) -> str:
    """A value as Java's properties format wants it: a backslash escapes, all else in here is plain."""
    return str(value).replace("\\", "\\\\")
