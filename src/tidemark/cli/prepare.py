"""Makes later starts faster: runs the pipeline once and archives the JVM's loaded classes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidemark.errors import PlatformError
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker, class_archive
from tidemark.local.jars import spark_jars
from tidemark.service.run import run_pipeline
from tidemark.settings import Settings
from tidemark.settings.sections import JavaSettings
from tidemark.spark import spark_session
from tidemark.traffic.sinks import write_file
from tidemark.traffic.stream import Traffic, blocks

_PARTS = (class_archive.DRIVER, class_archive.BROKER)


def is_prepared(settings: JavaSettings) -> bool:
    """Whether the class archives exist for this Java and these libraries."""
    return all(class_archive.archive(settings, part).exists() for part in _PARTS)


def prepare(settings: Settings, report: Callable[[str], None] = lambda what: None) -> bool:
    """Runs the pipeline over a little traffic in a temporary home, and lets its JVM archive the
    loaded classes. Calls `say` with each step. Returns False if this JVM cannot archive classes.

    Raises PlatformError if the JVM libraries cannot be fetched, or the JVM does not end.
    """
    spark_jars(settings.java)
    with tempfile.TemporaryDirectory(
        prefix=".prepare-", dir=class_archive.archive(settings.java).parent
    ) as work:
        archives, log = {part: Path(work) / f"{part}.jsa" for part in _PARTS}, Path(work) / "access.log"
        trial = Settings.of(
            home=Path(work) / "home",
            broker_port=0,
            quality_interval_seconds=0.0,
            jvm_cache=settings.java.cache,
            ivy_settings=settings.java.ivy_settings,
            driver_memory=settings.spark.driver_memory,
            driver_java_options=class_archive.make(archives[class_archive.DRIVER], settings.java),
            broker_java_options=class_archive.make(archives[class_archive.BROKER], settings.java),
        )
        report("running the pipeline once over a little traffic")
        write_file(blocks(Traffic(start=1_780_000_000, seconds=10), truth=False), log, Event())
        with broker.running(trial) as there:
            import_files([str(log)], Options(there.kafka, say=lambda text: None))
            # A JVM that writes an archive with profiles reports every step, and its own long command.
            with _output_to(Path(work) / "output"):
                run_pipeline(there, once=True)
        report("writing the class archive")
        try:
            _end(spark_session(trial))
        except subprocess.TimeoutExpired as error:
            raise PlatformError("the JVM did not end", "Try again.") from error
        kept = [class_archive.keep(archives[part], settings.java, part) for part in _PARTS]
        return all(kept)


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Processes started within the context write to a file. It is shown after an error."""
    sys.stdout.flush()
    kept = [os.dup(1), os.dup(2)]
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            for number, copy in enumerate(kept, start=1):
                os.dup2(copy, number)
                os.close(copy)
    except BaseException:
        os.write(2, path.read_bytes())
        raise


def _end(session: SparkSession, seconds: float = 300) -> None:
    """Stops the session and its JVM, and waits until that has ended.

    Raises subprocess.TimeoutExpired.
    """
    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()
        process.wait(seconds)
        SparkContext._gateway = SparkContext._jvm = None
