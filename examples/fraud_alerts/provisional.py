"""The fast path: a stateless query in real-time mode decides each payment within milliseconds.

It compares with a broadcast profile of the customers, which is fixed while a query runs. So every REFRESH_SECONDS
the exact path hands over a new profile with the position in the topic that it stands for, and a new query
starts from there while the old one still runs: no payment waits for the change. Payments before that
position have been validated already; for those after it the profile's maximum is the true one or, being older,
a lower one: no true amount alert is missed. What is alerted in error the exact path withdraws.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from examples.fraud_alerts.customer import Customer
from examples.fraud_alerts.limits import LIMITS
from examples.fraud_alerts.money import EURO_CENTS_SQL
from examples.fraud_alerts.rules import amount, location
from examples.fraud_alerts.topics import ALERTS, TRANSACTIONS
from examples.kit.events import good, validated
from examples.kit.job import Sources
from tidemark.kafka import client as kafka
from tidemark.local.process import wait_until

REFRESH_SECONDS = 60.0
# The old query goes on until the tasks of the new one run, and so much longer, for they compile their code
# first; meanwhile both alert, under the same key.
OVERLAP_SECONDS = 3.0
START_SECONDS = 60.0
# While the exact path is further behind than this it would be pointless to hurry: what it has not read yet is
# old, and its profile knows little. But not for longer than PATIENCE_SECONDS.
BEHIND_SECONDS = 2.0
PATIENCE_SECONDS = 5.0

PROFILE = pa.schema(
    [
        ("customer", pa.string()),
        ("highest", pa.int64()),
        ("phone_latitude", pa.float64()),
        ("phone_longitude", pa.float64()),
    ]
)
PROFILE_DDL = "customer string, highest long, phone_latitude double, phone_longitude double"


class Provisional:
    """Keeps one such query running, with a profile that is at most REFRESH_SECONDS old."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._directory = sources.settings.run_directory / "fraud-profiles"
        shutil.rmtree(self._directory, ignore_errors=True)
        self._numbers = count()
        self._running: tuple[StreamingQuery, Path] | None = None
        self._handing_over: threading.Thread | None = None
        self._failure: Exception | None = None
        # Set once the first query runs.
        self.at_work = threading.Event()
        self._first = self._last = 0.0

    def refresh(self, customers: Mapping[str, Customer], positions: Mapping[int, int], behind: float) -> None:
        """Called after each batch: `customers` know all payments before `positions` (next offset by partition),
        the last of which is `behind` seconds old. Raises the error of a failed query."""
        now = time.monotonic()
        self._first = self._first or now
        if self._failure or (self._running and self._running[0].exception()):
            raise self._failure or RuntimeError(str(self._running and self._running[0].exception()))
        due = not self._running or now - self._last >= REFRESH_SECONDS
        busy = self._handing_over is not None and self._handing_over.is_alive()
        if not due or busy or (behind > BEHIND_SECONDS and now - self._first < PATIENCE_SECONDS):
            return
        self._last = now
        directory = self._directory / str(next(self._numbers))
        directory.mkdir(parents=True)
        pq.write_table(profile(customers), directory / "profile.parquet")
        self._handing_over = threading.Thread(
            target=self._hand_over, args=(directory, dict(positions)), daemon=True
        )
        self._handing_over.start()

    def _hand_over(self, directory: Path, positions: dict[int, int]) -> None:
        try:
            # An explicit schema saves the job that would infer it.
            profiles = self._sources.spark.read.schema(PROFILE_DDL)
            known = profiles.parquet(str(directory / "profile.parquet"))
            query = start(alerts(self._payments(positions), known), self._sources, directory)
            before, self._running = self._running, (query, directory)
            wait_until(lambda: self._is_at_work(query), START_SECONDS)
            time.sleep(OVERLAP_SECONDS)
            self.at_work.set()
            if before:
                before[0].stop()
                shutil.rmtree(before[1], ignore_errors=True)
        except Exception as error:
            self._failure = error

    def _is_at_work(self, query: StreamingQuery) -> bool:
        """Whether a task of it runs for each partition."""
        tracker = self._sources.spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(query.runId))]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return any(stage.numActiveTasks == stage.numTasks for stage in stages if stage)

    def _payments(self, positions: dict[int, int]) -> DataFrame:
        partitions = kafka.end_offsets(self._sources.settings.kafka, TRANSACTIONS.topic)
        starts = {str(partition): positions.get(partition, -2) for partition in partitions}
        read = (
            self._sources.spark.readStream.format("kafka")
            .options(**kafka.spark_options(self._sources.settings.kafka))
            # It reads without end, and would ask without pause.
            .option("kafka.fetch.max.wait.ms", "100")
            .option("subscribe", TRANSACTIONS.topic)
            .option("startingOffsets", json.dumps({TRANSACTIONS.topic: starts}))
            .load()
        )
        return good(validated(read, TRANSACTIONS))


def profile(customers: Mapping[str, Customer]) -> pa.Table:
    """The query's profile of each customer: the maximum so far, and the phone's last known place."""
    rows = [
        (
            name,
            customer.highest if customer.count else None,
            *(customer.reports[-1][1:] if customer.reports else (None, None)),
        )
        for name, customer in customers.items()
    ]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(PROFILE)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, PROFILE, strict=True)], schema=PROFILE
    )


def start(rows: DataFrame, sources: Sources, directory: Path) -> StreamingQuery:
    """Runs in real-time mode. The checkpoint is the query's own and goes with it: it has no state."""
    query: StreamingQuery = (
        rows.writeStream.format("kafka")
        .options(**kafka.spark_options(sources.settings.kafka))
        .option("kafka.linger.ms", "0")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .outputMode("update")
        .trigger(realTime="5 minutes")  # type: ignore[call-overload]
        .start()
    )
    return query


def alerts(payments: DataFrame, known: DataFrame) -> DataFrame:
    """Good payments and the profile to provisional alerts as records: topic, key, value.

    A customer without enough history by the profile may have enough by now, so the amount rule is asked
    whatever the history; for one who is not in the profile every amount is above the maximum.
    """
    far = _kilometres(*map(F.col, ("latitude", "longitude", "phone_latitude", "phone_longitude")))
    fired = F.array_compact(
        F.array(
            _fired(amount.NAME, F.col("euro") > F.coalesce("highest", F.lit(-1)), "above the highest known"),
            _fired(location.NAME, far > LIMITS.distance_km, "far from the phone's last known place"),
        )
    )
    alert = F.struct(
        F.col("id").alias("transaction"),
        "customer",
        "fired.rule",
        F.lit("provisional").alias("status"),
        "fired.reason",
        F.unix_millis("record.timestamp").alias("produced"),
        "merchant",
        "country",
        F.col("euro").alias("amount"),
        F.unix_millis("time").alias("time"),
        # The clock itself: current_timestamp() is that of the batch, which lasts for minutes.
        F.expr("CAST(java_method('java.lang.System', 'currentTimeMillis') AS LONG)").alias("decided_at"),
    )
    return (
        payments.withColumn("euro", F.expr(EURO_CENTS_SQL))
        .join(F.broadcast(known), "customer", "left")
        .withColumn("fired", F.explode(fired))
        .select(
            F.lit(ALERTS).alias("topic"),
            F.col("id").cast("binary").alias("key"),
            F.to_json(alert).alias("value"),
        )
    )


def _fired(rule: str, condition: Column, reason: str) -> Column:
    return F.when(condition, F.struct(F.lit(rule).alias("rule"), F.lit(reason).alias("reason")))


def _kilometres(
    latitude: Column, longitude: Column, other_latitude: Column, other_longitude: Column
) -> Column:
    """As `rules.location.distance_km`."""
    north, east = F.radians(other_latitude - latitude), F.radians(other_longitude - longitude)
    chord = F.pow(F.sin(north / 2), 2) + F.cos(F.radians(latitude)) * F.cos(
        F.radians(other_latitude)
    ) * F.pow(F.sin(east / 2), 2)
    # Not `least`, which passes over NULL: an unknown place is no distance.
    return F.asin(F.sqrt(F.when(chord > 1, 1.0).otherwise(chord))) * (2 * location.EARTH_KM)
