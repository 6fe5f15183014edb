"""Examples on a real broker within the tests' Spark: stopped in the middle, started again, recounted."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.kit import run
from examples.kit.example import Example, recount
from examples.kit.load import Load, send
from examples.kit.results import Results
from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.local.directories import prepare_home
from tidemark.settings import Settings


@pytest.mark.parametrize(
    "name, rate",
    [
        ("ad_campaigns", 400),
        ("bus_positions", 50),
        ("intrusion", 200),
        ("recommendations", 100),
        ("sensors", 100),
        ("ski_lifts", 100),
        ("top_sellers", 100),
        ("trending_topics", 400),
    ],
)
def test_stopped_and_started_again(
    spark: SparkSession, broker: Settings, tmp_path: Path, name: str, rate: float
) -> None:
    example: Example = importlib.import_module(f"examples.{name}.example").EXAMPLE
    home = broker.changed(home=tmp_path)
    prepare_home(home)
    load = Load(seed=5, rate=rate, seconds=12, late=0.2)
    events = [event._replace(at=0) for event in example.events(load)]
    middle = len(events) // 2

    with run.running(example.job, spark, home):
        send(events[:middle], home.kafka, threading.Event())
        # It is stopped in the middle of whatever it does.
    with run.running(example.job, spark, home) as runtime:
        send(events[middle:], home.kafka, threading.Event())
        runtime.catch_up()

    results = Results(home)
    assert recount(example, load, results) == []
    assert list(example.show(results))
    accounts = results.table(ACCOUNTS).group_by("flow").aggregate([("received", "sum"), ("rejected", "sum")])
    bad = sum(bool(event.reason) for event in events)
    for flow, received, rejected in zip(*(column.to_pylist() for column in accounts.columns), strict=True):
        if flow != "recommendations.co-visits":  # it reads the changes of a table
            assert (flow, received, rejected) == (flow, len(events), bad)
