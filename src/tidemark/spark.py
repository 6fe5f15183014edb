"""The Spark session: settings for a laptop, a cluster, or a runtime with its own session."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidemark.errors import PlatformError
from tidemark.local import driver
from tidemark.local.directories import prepare_home
from tidemark.local.jars import spark_jars
from tidemark.local.process import KEEPING_MEMORY
from tidemark.machine import heap_mebibytes, shuffle_partitions
from tidemark.packaging import code_archive
from tidemark.settings import Settings
from tidemark.store import object_storage

# For a micro-batch of a few thousand rows, Spark's defaults for big tables cost more than the batch.
_STREAMING = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state"
    ".RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    # Where nothing comes, Kafka is asked this often; 10 ms by default, which takes a third of a core, half of it the
    # broker's. Where lines come all the time, there are always some after a batch.
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.inMemoryColumnarStorage.batchSize": "20000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # Otherwise local rows become part of the plan, and the planner filters them row by row.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    # The flows' queries have more than the default of 100 generated classes. With fewer cache entries
    # than classes, every batch would compile all of them again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # With more groups than this, sketch aggregates fall back to sorting.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    "spark.sql.adaptive.enabled": "false",
    # With ICU, the first `lower` in a JVM spends more than a second on building tables.
    "spark.sql.icu.caseMappings.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.optimizeWrite.enabled": "false",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    "spark.databricks.delta.stalenessLimit": "0",
    # Number of tasks in which VACUUM lists a table's files; 10,000 by default.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    # The version that a rebuild replaced may be older than the retention of old files, but its files left the table
    # just now and still exist for the comparison.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
}
# Options whose values Spark must not show in a plan, log, event or page.
_REDACTED = "(?i)secret|password|passphrase|token|credential|access[.]?key|jaas|keystore|truststore"
_ANYWHERE = {
    # A fifth of the workers' time was clearing pages.
    **{f"spark.executorEnv.{name}": value for name, value in KEEPING_MEMORY.items()},
    # Spark's web page would be open to the whole network.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": _REDACTED,
    "spark.sql.redaction.options.regex": f"{_REDACTED}|url",
}
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.scheduler.mode": "FAIR",
    "spark.cleaner.periodicGC.interval": "5min",
    # A collected batch comes directly from its tasks, not through the block manager's files and sockets.
    "spark.task.maxDirectResultSize": "1g",
    "spark.rpc.message.maxSize": "1500",
}
# Tables on S3, which Spark only reads. The default stream needs an asynchronous client that is not installed.
_S3 = {"spark.hadoop.fs.s3a.input.stream.type": "classic"}
_RUNTIME = "DATABRICKS_RUNTIME_VERSION"
# Required in a session that the runtime created; the rest is the cluster's own configuration.
_ON_A_RUNTIME = {
    name: _STREAMING[name]
    for name in (
        "spark.sql.session.timeZone",
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
    )
}


def spark_session(
    settings: Settings, name: str = "tidemark", more: Mapping[str, str] | None = None
) -> SparkSession:
    """The session for these settings, or the runtime's existing session. `more` are options in place of Tidemark's;
    those of the settings prevail.

    Executors of a cluster get the JVM libraries and Tidemark's code. They must have a Python with Tidemark's
    dependencies (`executor_python`).

    Raises PlatformError if Java is missing or JVM packages cannot be fetched.
    """
    if _RUNTIME not in os.environ:
        prepare_home(settings)
    return _session(settings, name, more or {})


def _session(settings: Settings, name: str, more: Mapping[str, str]) -> SparkSession:
    if _RUNTIME in os.environ:
        session = SparkSession.builder.getOrCreate()
        for key, value in _ON_A_RUNTIME.items():
            session.conf.set(key, value)
        return session
    if settings.spark.executor_python:
        os.environ["PYSPARK_PYTHON"] = settings.spark.executor_python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    on_s3 = object_storage.reaches(settings.lakehouse.tables_location)
    jars = spark_jars(settings.java, s3=on_s3)
    own = settings.spark.own_options
    options = {
        **_STREAMING,
        **_ANYWHERE,
        **(_LOCAL if settings.spark.is_local else {}),
        **(_S3 if on_s3 else {}),
        "spark.app.name": name,
        "spark.master": settings.spark.master or "local[*]",
        "spark.driver.memory": f"{heap_mebibytes(settings.spark)}m",
        "spark.sql.shuffle.partitions": str(shuffle_partitions(settings.spark)),
        "spark.jars": ",".join(map(str, jars)),
        "spark.executor.extraJavaOptions": driver.java_options(settings),
        **more,
    }
    if SparkContext._gateway is None:
        SparkContext(gateway=driver.start(settings, {**options, **own}, jars))
    builder = SparkSession.builder
    for key in options.keys() - own.keys():
        builder = builder.config(key, options[key])
    session = builder.getOrCreate()
    if not settings.spark.is_local:
        session.sparkContext.addPyFile(str(code_archive(settings)))
    return session


def java_ended() -> PlatformError | None:
    """An error that describes how the Java process of this process's session has ended; None while it runs, or if this
    process did not start it."""
    process = getattr(SparkContext._gateway, "proc", None)
    return driver.ended(process) if process else None


def starting_session(settings: Settings) -> Callable[[], SparkSession]:
    """Starts the session of a home that is prepared, in a thread; the function waits for it. Raises as
    `spark_session`."""
    future: Future[SparkSession] = Future()

    def start() -> None:
        try:
            future.set_result(_session(settings, "tidemark", {}))
        except BaseException as error:  # raised by the caller's `result`
            future.set_exception(error)

    # Unlike an executor's, a daemon thread does not delay the end of a process that has failed meanwhile.
    threading.Thread(target=start, daemon=True).start()
    return future.result
