"""Killed for real, again and again, at named points, at moments seen from outside and at random times, the
pipeline ends with exact tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests import processes
from tests.pipeline import walked
from tests.pipeline.harness import fresh, produce, run_process
from tests.recovery.killing import (
    START,
    await_running,
    finish,
    java_of,
    kill,
    kill_at,
    slices,
    start_pipeline,
    traffic,
)
from tests.recovery.scenario import Plan, play
from tests.traffic.test_kafka_sink import read_all
from tidemark.kafka import client as kafka
from tidemark.local import dashboard
from tidemark.local.process import wait_until
from tidemark.settings import Settings


@pytest.mark.slow
@pytest.mark.parametrize(
    "moments",
    [
        ["requests:between-tables@1", "ledger:between-tables@2", "requests:before-checkpoint@2"],
        [
            "file:tables/gold/visitors_by_country/*.parquet",
            "activity:between-tables@2",
            "activity:before-followers@2",
            "activity:before-checkpoint@1",
        ],
    ],
    ids=["requests", "activity"],
)
def test_killed_at_one_moment_after_the_other(
    broker: Settings, spark: SparkSession, tmp_path: Path, moments: list[str]
) -> None:
    """Each start finds what the kill before left behind, and more lines, among them late ones that make one session of
    two; then funnels, retention and paths are exact, too."""
    settings = walked.declared_in(fresh(broker, tmp_path, batch_lines=500))
    pairs = [*traffic(seed=11, lines=2_400), *walked.lines(seed=11, start=START, visitors=120)]
    Random(11).shuffle(pairs)
    for part, moment in zip(slices(pairs, len(moments)), moments, strict=True):
        produce(settings, part)
        process = start_pipeline(settings, moment)
        assert kill_at(settings, process, moment) == "in time", (moment, process.communicate()[0])
    expected = finish(spark, settings, pairs, walked.GOALS)
    walked.assert_walks(settings.home, expected)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_while_executors_write(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    """Batches too large for the driver: killed among files that no table has yet, and between the tables."""
    settings = fresh(broker, tmp_path, batch_lines=4_000, local_rows=1_000)
    pairs = traffic(seed=17, lines=8_000)
    moments = [
        "file:tables/silver/requests/part-requests-*.parquet",
        "requests:between-tables@2",
    ]
    for part, moment in zip(slices(pairs, len(moments)), moments, strict=True):
        assert len(part) >= settings.batches.lines > settings.batches.local_rows
        produce(settings, part)
        process = start_pipeline(settings, moment)
        assert kill_at(settings, process, moment) == "in time", (moment, process.communicate()[0])
    finish(spark, settings, pairs)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1])
def test_pipeline_broker_and_import_killed_in_each_others_presence(
    broker: Settings, tmp_path: Path, seed: int
) -> None:
    """One scenario of `make soak`."""
    play(Plan.of(seed, kills=5, lines=6_000), broker, tmp_path, say=print)


@pytest.mark.slow
def test_generator_dashboard_and_java_are_killed(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    """What the generator has got into the topic is counted once; the dashboard is there again when it is started. A
    pipeline whose Java process is killed names the cause in its last line."""
    settings = fresh(broker, tmp_path, batch_lines=500)
    environment = {**os.environ, **settings.environment()}

    def start(*command: str) -> subprocess.Popen[bytes]:
        call = [sys.executable, "-m", "tidemark", *command]
        return processes.Popen(call, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)

    def sent() -> int:
        return sum(kafka.end_offsets(settings.kafka, settings.kafka.topic).values())

    pipeline = run_process(settings, once=False)
    try:
        await_running(settings, pipeline)
        for seed in ("1", "2"):
            before = sent()
            generator, page = start("generate", "--seed", seed, "--rate", "400"), start("dashboard")
            try:
                assert wait_until(lambda: sent() > before + 500 and dashboard.is_healthy(settings), 60)  # noqa: B023
            finally:
                os.killpg(generator.pid, signal.SIGKILL)
                os.killpg(page.pid, signal.SIGKILL)
                generator.wait()
                page.wait()
            assert wait_until(lambda: not dashboard.is_healthy(settings), 60)
        os.kill(java_of(pipeline.pid), signal.SIGKILL)
        output, _ = pipeline.communicate(timeout=60)
        assert pipeline.returncode == 1 and "Traceback" not in output, output
        assert "Spark's Java process has ended (killed by SIGKILL)" in output.splitlines()[-1], output
    finally:
        if pipeline.poll() is None:
            kill(pipeline)
    finish(spark, settings, [("default", value) for value, *_ in read_all(settings, settings.kafka.topic)])
