"""Starts the JVM of Spark's driver, to which PySpark connects.

PySpark's own launcher would first start another JVM, which only assembles the command, and asks for a module of Java
that small Java runtimes lack.
"""

from __future__ import annotations

import logging
import os
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import java_import
from py4j.protocol import Py4JError
from pyspark.find_spark_home import _find_spark_home

from tidemark.errors import PlatformError
from tidemark.local.java import java_release, require_java
from tidemark.local.process import process_mark

# What Spark accesses by reflection, as in its class JavaModuleOptions.
_OPENED = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
    "java.base/sun.nio.cs", "java.base/sun.util.calendar", "java.security.jgss/sun.security.krb5",
)  # fmt: skip
_OPENED_BEFORE_24 = ("java.base/sun.security.action",)
_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
# The packages whose classes PySpark names without them.
_IMPORTED = (
    "org.apache.spark.SparkConf", "org.apache.spark.api.java.*", "org.apache.spark.api.python.*",
    "org.apache.spark.ml.python.*", "org.apache.spark.mllib.api.python.*", "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders", "org.apache.spark.sql.OnSuccessCall", "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*", "org.apache.spark.sql.api.python.*", "org.apache.spark.sql.hive.*",
    "scala.Tuple2",
)  # fmt: skip
# Spark's options, and the JVM's port and secret.
_FILES = ("spark-options", "spark-gateway")
_PATIENCE_SECONDS = 120.0
_ENDING_SECONDS = 2.0


def start(
    options: Mapping[str, str], jars: Sequence[Path], java_options: Sequence[str], run_directory: Path
) -> ClientServer:
    """Starts the JVM with Spark's `options`, `jars` before its own, and options of the JVM. Returns PySpark's gateway.

    The options are passed in a file that only its owner can read, because every user of the machine sees a command
    line. The JVM ends with this process. Raises PlatformError if it does not start.
    """
    # Several processes of a home may start at the same time.
    properties, connection_file = (run_directory / f"{name}.{os.getpid()}" for name in _FILES)
    for path in (path for name in _FILES for path in run_directory.glob(f"{name}.*")):
        pid = int(path.suffix.removeprefix("."))
        if pid == os.getpid() or not process_mark(pid):
            path.unlink(missing_ok=True)
    with os.fdopen(os.open(properties, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.writelines(f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in options.items())
    opened = (*_OPENED, *(_OPENED_BEFORE_24 if java_release() < 24 else ()))
    command = [
        str(require_java()),
        "-cp",
        os.pathsep.join(_class_path(jars)),
        *java_options,
        *(f"--add-opens={package}=ALL-UNNAMED" for package in opened),
        *_OPTIONS,
        "org.apache.spark.deploy.SparkSubmit",
        "--properties-file",
        str(properties),
        "--load-spark-defaults",
        "pyspark-shell",
    ]
    settings = _configuration() / "spark-env.sh"
    if settings.exists():
        command = ["/bin/sh", "-c", 'set -a; . "$0"; exec "$@"', str(settings), *command]
    environment = {
        **os.environ,
        "SPARK_HOME": _find_spark_home(),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection_file),
    }
    process = subprocess.Popen(
        # It ends when its input ends.
        command,
        stdin=subprocess.PIPE,
        env={**environment, "SPARK_CONNECT_MODE": "0"},
        preexec_fn=_ignore_interrupts,
    )
    try:
        port, secret = _connection(process, connection_file)
    finally:
        for path in (properties, connection_file):
            path.unlink(missing_ok=True)
    gateway = ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
    gateway.proc = process
    _silence_py4j()
    try:
        for name in _IMPORTED:
            java_import(gateway.jvm, name)
    except (Py4JError, ConnectionError) as error:
        if lost := ended(process):
            raise lost from error
        raise
    return gateway


def _silence_py4j() -> None:
    """py4j logs each broken call with its trace, at last in the place of the error that Tidemark reports."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def ended(process: subprocess.Popen[bytes]) -> PlatformError | None:
    """An error that describes how Spark's Java process has ended, or ends now; None while it runs."""
    try:
        # Its connections break a moment before it has ended.
        status = process.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    return PlatformError(
        f"Spark's Java process has ended ({how})",
        "Start again: nothing is lost. If the machine has too little memory, lower driver_memory or local_rows.",
    )


def _ignore_interrupts() -> None:
    # Ctrl-C reaches every process of the terminal. This one is still needed for a clean end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _connection(process: subprocess.Popen[bytes], connection_file: Path) -> tuple[int, str]:
    """The port and the secret that the JVM writes to a file when it is ready."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not connection_file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            state = (
                "does not answer" if process.returncode is None else f"ended with status {process.returncode}"
            )
            raise PlatformError(
                f"Spark's Java process {state} at its start",
                "Its message is above. Are there enough memory and file descriptors (`ulimit -n`) for it?",
            )
        time.sleep(0.02)
    content = connection_file.read_bytes()
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode()


def _class_path(jars: Sequence[Path]) -> list[str]:
    """In the order of Spark's launcher, so that a log library of another package does not come first."""
    own = Path(_find_spark_home()) / "jars"
    others = [os.environ[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)]
    return [
        *map(str, jars),
        str(_configuration()),
        *map(str, own.glob("slf4j-api-*.jar")),
        f"{own}/*",
        *others,
    ]


def _configuration() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf")
