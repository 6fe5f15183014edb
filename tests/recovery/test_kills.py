"""Killed for real, at named points and at random times, the pipeline ends with exact tables."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.harness import assert_equal, fresh, produce, run_process
from tests.pipeline.recount import recount
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

START = 1_780_000_200

Pair = tuple[str, bytes]


def traffic(seed: int, lines: int) -> list[Pair]:
    """Two sites' lines, some late, in order of arrival."""
    made = Traffic(start=START, rate=20, seconds=lines // 20, seed=seed, visitors=300, late=0.1)
    chance = random.Random(seed)
    values = [line for block in blocks(made) for line in block.lines]
    return [(chance.choice(["default", "shop"]), value) for value in values]


def slices(pairs: list[Pair], parts: int) -> Iterator[list[Pair]]:
    size = -(-len(pairs) // parts)
    return (pairs[start : start + size] for start in range(0, len(pairs), size))


def finish(settings: Settings, pairs: list[Pair]) -> None:
    """Catches up without further harm, and compares every table."""
    process = run_process(settings)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    assert_equal(settings, recount(pairs))


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "requests:between-tables@1",
        "requests:between-tables@3",
        "requests:before-ledger@2",
        "ledger:between-tables@1",
        "requests:before-checkpoint@2",
        "activity:between-tables@1",
        "activity:between-tables@2",
        "activity:before-checkpoint@1",
    ],
)
def test_killed_at_a_named_point(broker: Settings, tmp_path: Path, point: str) -> None:
    settings = fresh(broker, tmp_path, batch_lines=1_500)
    pairs = traffic(seed=11, lines=6_000)
    produce(settings, pairs)
    process = run_process(settings, crash_at=point)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == -signal.SIGKILL, output
    finish(settings, pairs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_times_while_lines_arrive(broker: Settings, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    settings = fresh(broker, tmp_path, batch_lines=2_000)
    pairs = traffic(seed, lines=12_000)
    for part in slices(pairs, 3):
        process = run_process(settings, once=False)
        await_running(settings, process)
        for few in slices(part, 8):
            produce(settings, few)
            time.sleep(chance.uniform(0.05, 0.4))
        time.sleep(chance.uniform(0, 4))
        kill(process)
    finish(settings, pairs)


def await_running(settings: Settings, process: subprocess.Popen[str]) -> None:
    record = settings.run_directory / "pipeline.json"
    deadline = time.monotonic() + 120
    while not (
        record.exists()
        and f'"pid": {process.pid}' in record.read_text()
        and '"running"' in record.read_text()
    ):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the pipeline did not start"
        time.sleep(0.1)


def kill(process: subprocess.Popen[str]) -> None:
    """The driver, its JVM and its Python workers, all at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
