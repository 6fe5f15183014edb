"""Rate at which the advertising benchmark's job (examples/ad_campaigns) processes events that wait in Kafka, compared
with Spark only reading the same topic.

The job is that of the example, with parsing, dead letters and exactly-once sink. The rate is measured from the start of
its queries to their last commit.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import Figure
from examples.ad_campaigns.check import truth
from examples.ad_campaigns.generator import events
from examples.ad_campaigns.job import EVENTS, job
from examples.ad_campaigns.server import redis
from examples.ad_campaigns.sinks import COUNTS, Count, Sink, ToRedis, counts_in_delta, to_delta
from examples.kit import run
from examples.kit.load import Load, send
from examples.kit.results import Results
from tidemark.kafka import client as kafka
from tidemark.local import broker
from tidemark.local.directories import prepare_home
from tidemark.settings import Settings
from tidemark.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RATE = 1_000_000.0
_SINKS = "Redis" if shutil.which("redis-server") else "a Delta table"


def measure(*, number: int, runs: int) -> list[Figure]:
    """Events per second of the job and of the raw read, and their ratio, run by run."""
    load = Load(seed=1, rate=_RATE, seconds=number / _RATE, late=0.00001)
    expected = truth(events(load))
    rates, raw = [], []
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory, redis() as address:
        root = Path(directory)
        settings = Settings.of(home=root / "broker", broker_port=0)
        with broker.running(settings) as settings:
            kafka.ensure_topic(settings.kafka, EVENTS.topic, partitions=EVENTS.partitions)
            send((event._replace(at=0.0) for event in events(load)), settings.kafka, threading.Event())
            spark = spark_session(settings)
            for turn in range(runs + 1):  # the first one warms up
                raw.append(number / _raw(spark, settings))
                home = settings.changed(home=root / f"home-{turn}")
                sink = ToRedis(f"{address[:-1]}{turn}") if address else None
                rates.append(number / _drained(spark, home, sink or to_delta))
                campaigns = {campaign for campaign, _ in expected}
                counts = sink.counts(campaigns) if sink else _in_delta(home)
                assert {key: count.views for key, count in counts.items()} == expected, "the counts are wrong"
            spark.stop()
    rates, raw = rates[1:], raw[1:]
    return [
        Figure(f"advertising benchmark into {_SINKS}, events/s", rates),
        Figure("reference: Spark reads the topic, events/s", raw),
        Figure("ratio", [rate / reference for rate, reference in zip(rates, raw, strict=True)]),
    ]


def _drained(spark: SparkSession, settings: Settings, sink: Sink) -> float:
    prepare_home(settings)
    begun = time.monotonic()
    with run.running(job(sink), spark, settings) as runtime:
        runtime.catch_up()
    return time.monotonic() - begun


def _raw(spark: SparkSession, settings: Settings) -> float:
    reader = spark.read.format("kafka").options(**kafka.spark_options(settings.kafka))
    begun = time.monotonic()
    records = reader.option("subscribe", EVENTS.topic).load()
    records.select("value").write.format("noop").mode("overwrite").save()
    return time.monotonic() - begun


def _in_delta(settings: Settings) -> dict[tuple[str, int], Count]:
    return counts_in_delta(Results(settings).table(COUNTS))
