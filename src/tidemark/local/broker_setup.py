"""Prepares Kafka's start: a formatted data directory, the configuration, the command line."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import PlatformError, SettingError
from tidemark.local import class_archive
from tidemark.local.jars import broker_jars, cache_directory
from tidemark.local.java import require_java
from tidemark.settings import Settings
from tidemark.settings.sections import BrokerSettings

MESSAGE_BYTES = 16 * 1024 * 1024
# The file of a formatted directory that differs between versions of Kafka only.
_FORMAT = "bootstrap.checkpoint"


@dataclass(frozen=True)
class Node:
    """One node of the embedded broker: its number, from 1, and its ports on 127.0.0.1."""

    number: int
    port: int
    controller_port: int

    def part(self) -> str:
        """Name of the node's directory, record and logs."""
        return "broker" if self.number == 1 else f"broker-{self.number}"


def prepare(settings: Settings, nodes: Sequence[Node]) -> list[list[str]]:
    """Formats the nodes' data directories if necessary, writes their configurations, and returns
    the commands that start them.

    Raises PlatformError if Java or the jars are missing, formatting fails, or the home has another number of
    nodes or a comma in its path, SettingError for an unusable `broker_properties`, and OSError if files cannot be
    written.
    """
    _require_same_number(settings, len(nodes))
    cluster = _cluster_id(settings.home / nodes[0].part() / "data")
    return [_prepare_node(settings, node, nodes, cluster) for node in nodes]


def _prepare_node(settings: Settings, node: Node, nodes: Sequence[Node], cluster: str) -> list[str]:
    directory = settings.home / node.part()
    if "," in str(directory):
        raise PlatformError(
            f"Kafka takes the comma in {directory} for the end of a name",
            "Name another directory with --home or TIDEMARK_HOME, or another Kafka with --bootstrap-servers.",
        )
    directory.mkdir(exist_ok=True)
    temporary = settings.home / "tmp" / node.part()
    temporary.mkdir(parents=True, exist_ok=True)
    java, class_path = require_java(), os.pathsep.join(str(jar) for jar in broker_jars(settings.java))
    logging = directory / "log4j2.properties"
    logging.write_text(_logging(settings, node), encoding="utf-8")
    own = settings.broker.java_options
    launch = [
        str(java),
        "-Xms128m",
        "-Xmx512m",
        "-XX:+UseG1GC",
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={settings.logs}/{node.part()}-crash-%p.log",
        f"-Djava.io.tmpdir={temporary}",
        f"-Dlog4j2.configurationFile={logging}",
        *shlex.split(f"{class_archive.use(settings.java, own, class_archive.BROKER)} {own}"),
        "-cp",
        class_path,
    ]
    data = directory / "data"
    if not data.is_dir():
        formatted = cache_directory(settings.java) / _FORMAT
        if formatted.exists():
            _format_as_before(formatted, data, node, cluster)
        else:
            _format(launch, data, node, nodes, cluster)
            _keep(data / _FORMAT, formatted)
    configuration = directory / "server.properties"
    configuration.touch(mode=0o600)
    configuration.chmod(0o600)  # `broker_properties` may contain secrets
    configuration.write_text(
        _lines(properties(data, node, nodes) | _own(settings.broker, node)), encoding="utf-8"
    )
    return [*launch, "kafka.Kafka", str(configuration)]


def log_file(settings: Settings, part: str = "broker") -> Path:
    """A node's log, rolled by size."""
    return settings.logs / f"{part}.log"


def output_file(settings: Settings, part: str = "broker") -> Path:
    """Output of a node's JVM: almost nothing, unless it cannot start."""
    return settings.logs / f"{part}.out"


def last_error(settings: Settings, part: str = "broker") -> str:
    """The most useful line of a node's latest start, for an error message."""
    for path in (log_file(settings, part), output_file(settings, part)):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-200:]
        except FileNotFoundError:
            continue
        for line in reversed(lines):
            if re.match(r"^\S*(Exception|Error)\b.*: |^Error|^Caused by: ", line):
                return line
    return "it left no message"


def _require_same_number(settings: Settings, wanted: int) -> None:
    existing = len(list(settings.home.glob("broker/data"))) + len(list(settings.home.glob("broker-*/data")))
    if existing not in (0, wanted):
        raise PlatformError(
            f"the broker of {settings.home} was made with {existing} nodes, not {wanted}",
            f"Set TIDEMARK_BROKER_NODES={existing} (broker_nodes), or start with another home.",
        )


def _cluster_id(data: Path) -> str:
    """The first node's cluster id if it has one, else a new one."""
    try:
        known = re.search(r"^cluster\.id=(.+)$", (data / "meta.properties").read_text("utf-8"), re.MULTILINE)
    except FileNotFoundError:
        known = None
    return known[1] if known else _new_id()


def _new_id() -> str:
    # A leading "x", because an id that starts with "-" looks like an option. Kafka requires 16 bytes in base 64.
    return "x" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def _format_as_before(formatted: Path, data: Path, node: Node, cluster: str) -> None:
    """Formats a data directory without a JVM. `formatted` is the file with the versions of Kafka's features that this
    version of Kafka wrote into another one."""
    unfinished = _unfinished(data)
    unfinished.mkdir()
    shutil.copyfile(formatted, unfinished / _FORMAT)
    identity = {"version": 1, "cluster.id": cluster, "node.id": node.number, "directory.id": _new_id()}
    (unfinished / "meta.properties").write_text(_lines(identity), encoding="utf-8")
    unfinished.rename(data)


def _keep(written: Path, formatted: Path) -> None:
    """Copies a file to the cache, whole or not at all. Without the copy, the next broker is formatted by Kafka, too."""
    copy = formatted.with_name(f"{formatted.name}.{os.getpid()}")
    with suppress(OSError):
        shutil.copyfile(written, copy)
        copy.replace(formatted)


def _unfinished(data: Path) -> Path:
    """The path of a directory that is renamed to `data` once it is formatted: `data` is either usable or absent."""
    unfinished = data.with_name("data.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    return unfinished


def _format(launch: list[str], data: Path, node: Node, nodes: Sequence[Node], cluster: str) -> None:
    """Formats a data directory by Kafka's tool."""
    unfinished = _unfinished(data)
    configuration = data.with_name("format.properties")
    configuration.write_text(_lines(properties(unfinished, node, nodes)), encoding="utf-8")
    done = subprocess.run(
        [
            *launch,
            "-XX:TieredStopAtLevel=1",
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster,
            "-c",
            str(configuration),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise PlatformError(f"cannot format the broker's data directory {data}: {reason}", "Check the disk.")
    configuration.unlink()
    unfinished.rename(data)


def properties(data: Path, node: Node, nodes: Sequence[Node]) -> dict[str, object]:
    """Kafka's configuration of a node with data in `data`, as one of `nodes`."""
    copies = min(3, len(nodes))
    # With three copies one may be lost, and acknowledged records still have two.
    in_sync = 2 if copies == 3 else 1
    return {
        "process.roles": "broker,controller",
        "node.id": node.number,
        "controller.quorum.voters": ",".join(f"{n.number}@127.0.0.1:{n.controller_port}" for n in nodes),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{node.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        # Lines in Kafka are kept without limit. The topic has the same setting, whoever created it.
        "log.retention.ms": -1,
        # Deleted records leave the disk within seconds.
        "log.retention.check.interval.ms": 3_000,
        # With 0, a thread of the broker looks a thousand times a second for files to delete: 3% of a core.
        "log.segment.delete.delay.ms": 100,
        "log.initial.task.delay.ms": 3_000,
        "message.max.bytes": MESSAGE_BYTES,
        "replica.fetch.max.bytes": MESSAGE_BYTES,
        "replica.fetch.response.max.bytes": MESSAGE_BYTES,
        "socket.request.max.bytes": 4 * MESSAGE_BYTES,
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        # Few clients.
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": 0,
        # A killed broker may register again only after its session has expired: 9 s by default.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 1000,
        # Otherwise an idle controller writes a record that says nothing every half second.
        "metadata.max.idle.interval.ms": 10_000,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        "num.recovery.threads.per.data.dir": 2,
    }


def _own(settings: BrokerSettings, node: Node) -> dict[str, object]:
    """The user's lines, with the node's ports in place of `{port}` and `{controller_port}`."""
    if not settings.properties:
        return {}
    try:
        text = Path(settings.properties).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        raise SettingError(f"broker_properties cannot be read: {error}", "Name a properties file.") from error
    text = text.replace("{port}", str(node.port)).replace("{controller_port}", str(node.controller_port))
    own: dict[str, object] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line.startswith(("#", "!")):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise SettingError(
                f"line {number} of {settings.properties} sets nothing: {name[:40]!r}",
                "Write each setting of broker_properties as name=value, on a line of its own.",
            )
        own[name.strip()] = value.strip()
    return own


def _lines(values: dict[str, object]) -> str:
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _logging(settings: Settings, node: Node) -> str:
    values = {
        "appenders": "file",
        "appender.file.type": "RollingFile",
        "appender.file.name": "FILE",
        "appender.file.fileName": log_file(settings, node.part()),
        "appender.file.filePattern": f"{str(settings.logs).replace('%', '%%')}/{node.part()}.%i.log",
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
    return "status=error\n" + _lines(values)


def _escaped(value: object) -> str:
    """A value in Java's properties format, which escapes characters as JSON does."""
    return json.dumps(str(value))[1:-1]
