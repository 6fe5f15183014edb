"""Starts the JVM of Spark's driver, to which PySpark connects.

PySpark's own launcher would first start another JVM, which only assembles the command, and asks for a module of Java
that small Java runtimes lack.
"""

from __future__ import annotations

import logging
import os
import shlex
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
from tidemark.local import class_archive
from tidemark.local.directories import temporary_directory
from tidemark.local.java import java_release, require_java
from tidemark.local.process import process_mark
from tidemark.settings import Settings

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
# For many columns Spark generates methods that are longer than HotSpot compiles by default. HotSpot stops compiling
# when its code cache, 48 MB by default, is full. Its optimizing compiler takes most of the first minute's CPU time on
# few cores, so it starts after twenty times as many calls as usual. While Spark's classes are loaded, the JVM would
# collect the whole heap each time their space grows. A regular expression over the long text of an error has overflowed
# the default stack of a query's thread.
_JVM = (
    "-Xss4m -XX:MetaspaceSize=256m -XX:-DontCompileHugeMethods -XX:ReservedCodeCacheSize=512m"
    " -XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 -XX:Tier4CompileThreshold=300000"
    " -XX:Tier4BackEdgeThreshold=800000"
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


def start(settings: Settings, options: Mapping[str, str], jars: Sequence[Path]) -> ClientServer:
    """Starts the JVM with Spark's `options`, which have `spark.driver.memory`, and `jars` before its own. Returns
    PySpark's gateway.

    The options are passed in a file that only its owner can read, because every user of the machine sees a command
    line. The JVM ends with this process. Raises PlatformError if it does not start.
    """
    # Several processes of a home may start at the same time.
    directory = settings.run_directory
    properties, connection_file = (directory / f"{name}.{os.getpid()}" for name in _FILES)
    for path in (path for name in _FILES for path in directory.glob(f"{name}.*")):
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
        *_driver_options(settings, options),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in opened),
        *_OPTIONS,
        "org.apache.spark.deploy.SparkSubmit",
        "--properties-file",
        str(properties),
        "--load-spark-defaults",
        "pyspark-shell",
    ]
    script = _configuration() / "spark-env.sh"
    if script.exists():
        command = ["/bin/sh", "-c", 'set -a; . "$0"; exec "$@"', str(script), *command]
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


def _driver_options(settings: Settings, options: Mapping[str, str]) -> list[str]:
    """Options of the driver's JVM, with those of the user."""
    own = f"{settings.spark.driver_java_options} {options.get('spark.driver.extraJavaOptions', '')}"
    return [
        f"-Xmx{options['spark.driver.memory']}",
        *java_options(settings).split(),
        "-Duser.timezone=UTC",
        f"-Dlog4j.configurationFile={_log4j(settings)}",
        f"-Djava.io.tmpdir={temporary_directory(settings)}",
        *shlex.split(f"{class_archive.use(settings.java, own)} {own}"),
    ]


def java_options(settings: Settings) -> str:
    """Options of the JVMs of driver and executors."""
    # In a small heap on few cores, full pauses cost less than concurrent collector threads, which the large arrays of
    # batches would trigger.
    collector = "-XX:+UseParallelGC" if settings.spark.is_local else "-XX:+UseG1GC"
    options = f"{collector} {_JVM}"
    # Kafka's Java client fetches tokens only from allowed URLs.
    url = settings.kafka.oauth_token_url
    return f"{options} -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}" if url else options


def _log4j(settings: Settings) -> str:
    """Configuration that writes Spark's log, warnings and errors only, to a file of the home."""
    path = settings.run_directory / "log4j2.properties"
    layout = {
        "text": "appender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSX}{UTC} %p %c{1}: %m%n%ex\n",
        "json": "appender.file.layout.type = JsonTemplateLayout\n"
        "appender.file.layout.eventTemplateUri = classpath:EcsLayout.json\n",
    }
    path.write_text(
        "status = error\n"
        "appender.file.type = RollingFile\n"
        "appender.file.name = file\n"
        f"appender.file.fileName = {settings.logs / 'spark.log'}\n"
        f"appender.file.filePattern = {settings.logs / 'spark.%i.log'}\n"
        f"{layout[settings.watching.log_format]}"
        "appender.file.policies.type = Policies\n"
        "appender.file.policies.size.type = SizeBasedTriggeringPolicy\n"
        "appender.file.policies.size.size = 10MB\n"
        "appender.file.strategy.type = DefaultRolloverStrategy\n"
        "appender.file.strategy.max = 5\n"
        "rootLogger.level = warn\n"
        "rootLogger.appenderRef.file.ref = file\n"
    )
    return path.as_uri()


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
