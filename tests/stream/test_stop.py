"""The pipeline ends when it is told to, whatever its batches are doing."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, fresh, produce, run_here
from tests.pipeline.recount import recount
from tests.recovery.killing import slices, traffic
from tidemark.local.process import wait_until
from tidemark.service.run import run_pipeline
from tidemark.settings import Settings
from tidemark.stream import lock
from tidemark.stream.lag import TopicLag


@pytest.mark.timeout(90)
def test_a_batch_that_comes_to_the_lock_meanwhile_does_not_hold_up_the_end(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = fresh(broker, tmp_path)
    pairs = traffic(seed=71, lines=4_000)
    at_rest, stopped, ended = lock.at_rest, threading.Event(), threading.Event()

    @contextmanager
    def for_a_while(settings: Settings) -> Iterator[None]:
        with at_rest(settings):
            if stopped.is_set():
                time.sleep(1.5)  # time for the next batch to come to the gate, and wait
            yield

    def send_and_end() -> None:
        parts = slices(pairs, 80)
        produce(settings, next(parts))
        first = settings.tables / "quality" / "accounts" / "_delta_log" / f"{1:020}.json"
        wait_until(first.exists, timeout=60)
        for number, part in enumerate(parts):
            if number == 20 and not ended.is_set():  # nobody else would take the signal
                stopped.set()
                os.kill(os.getpid(), signal.SIGTERM)
            produce(settings, part)
            time.sleep(0.05)

    monkeypatch.setattr(lock, "at_rest", for_a_while)
    sender = threading.Thread(target=send_and_end)
    sender.start()
    try:
        run_pipeline(settings, once=False)
    finally:
        ended.set()
        sender.join(90)
    assert stopped.is_set()
    run_here(spark, settings)
    assert_equal(settings, recount(pairs))


def test_a_pipeline_that_ended_leaves_no_client_of_kafka_behind(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    produce(settings, traffic(seed=72, lines=100))
    run_here(spark, settings)
    gc.collect()
    left = [each for each in gc.get_objects() if isinstance(each, TopicLag)]
    assert settings.kafka not in [each._settings for each in left]
