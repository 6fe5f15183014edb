"""Lines to send, processes to kill, and the moments to kill them at."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

import psutil
import tomlkit
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, run_here, run_process
from tests.pipeline.recount import Expected, recount
from tidemark.errors import PlatformError
from tidemark.local import broker as embedded
from tidemark.local.process import wait_until
from tidemark.local.records import replace_text
from tidemark.settings import Settings, with_tables_of_now
from tidemark.traffic.stream import Traffic, blocks

START = 1_780_000_200

Pair = tuple[str, bytes]

# A moment is one of these:
#   "flow:point@n"         the n-th pass of a named point of the code (`tidemark.stream.crash`)
#   "file:<glob>"          a new file of that name appears in the home: written, but perhaps not committed
#   "after:<seconds>"      that long after the pipeline says that it runs
POINTS = (
    "requests:between-tables",
    "requests:before-ledger",
    "ledger:between-tables",
    "requests:before-checkpoint",
    "activity:between-tables",
    "activity:before-followers",
    "activity:before-checkpoint",
)
# Passed while history is made anew.
HISTORY_POINTS = (
    "rebuild:staging",
    "rebuild:before-catch-up",
    "rebuild:caught-up",
    "swap:before-journal",
    "swap:between-tables",
    "swap:before-end",
)
FILES = (
    "file:tables/gold/visitors_by_country/*.parquet",  # in the middle of a merge
    "file:tables/silver/sessions/*.parquet",
    "file:tables/silver/requests/*.parquet",  # in the middle of an append
    "file:tables/quality/accounts/_delta_log/*.json",
    "file:checkpoints/requests-v1/offsets/*",  # a batch is planned
    "file:checkpoints/requests-v1/commits/.*",  # the end of a batch is being written down
    "file:checkpoints/activity-v1/offsets/*",
)

Killed = Literal["in time", "too late", "ended by itself"]


def traffic(seed: int, lines: int, rate: int = 20) -> list[Pair]:
    """Two sites' lines, some late, in order of arrival."""
    generated = Traffic(
        start=START, rate=rate, seconds=lines // rate, seed=seed, visitors=300, late=0.1, request_time=True
    )
    chance = random.Random(seed)
    values = [line for block in blocks(generated) for line in block.lines]
    return [(chance.choice(["default", "shop"]), value) for value in values]


def slices(pairs: list[Pair], parts: int) -> Iterator[list[Pair]]:
    size = -(-len(pairs) // parts)
    return (pairs[start : start + size] for start in range(0, len(pairs), size))


def start_pipeline(settings: Settings, moment: str = "") -> subprocess.Popen[str]:
    """The live pipeline, which will kill itself if the moment is a named point."""
    return run_process(settings, crash_at=moment if re.search(r"@\d+$", moment) else "", once=False)


def kill_at(settings: Settings, process: subprocess.Popen[str], moment: str, patience: float = 120) -> Killed:
    """Kills the pipeline at the moment, or when that has not come for `patience` seconds."""
    kind, _, what = moment.partition(":")
    if kind == "file":
        # It writes no rows before, and who looks this often takes a whole core.
        _wait(process, lambda: f'"pid": {process.pid}' in recorded(settings), patience)
        before = set(settings.home.glob(what))
        came = _wait(process, lambda: not before >= set(settings.home.glob(what)), patience, pause=0.0005)
    elif kind == "after":
        came = _wait(process, lambda: is_running(settings, process), patience)
        _wait(process, lambda: False, float(what))
    else:
        _wait(process, lambda: False, patience)
        came = process.poll() is not None
    if process.poll() is None:
        kill(process)
    if process.returncode != -signal.SIGKILL:
        return "ended by itself"
    return "in time" if came else "too late"


def _wait(
    process: subprocess.Popen[str], done: Callable[[], bool], seconds: float, pause: float = 0.02
) -> bool:
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        if done():
            return True
        time.sleep(pause)
    return False


def is_running(settings: Settings, process: subprocess.Popen[str]) -> bool:
    """Whether every query of this process has started."""
    text = recorded(settings)
    return f'"pid": {process.pid}' in text and '"running"' in text


def recorded(settings: Settings) -> str:
    """What a pipeline has written about itself."""
    record = settings.run_directory / "pipeline.json"
    return record.read_text() if record.exists() else ""


def await_running(settings: Settings, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not is_running(settings, process):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the pipeline did not start"
        time.sleep(0.1)


def kill(process: subprocess.Popen[str]) -> None:
    """The driver, its JVM and its Python workers, all at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def java_of(pid: int) -> int:
    """The Java process of a pipeline; 0 if it has none."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children():
            with suppress(psutil.NoSuchProcess):
                if "org.apache.spark.deploy.SparkSubmit" in child.cmdline():
                    return child.pid
    return 0


def finish(
    spark: SparkSession, settings: Settings, pairs: list[Pair], goals: Mapping[str, str] | None = None
) -> Expected:
    """Catches up without further harm, and compares every table; `goals` are conditions by name."""
    run_here(spark, settings)
    expected = recount(pairs, goals=goals)
    assert_equal(settings, expected)
    return expected


def declaring(settings: Settings, tables: Mapping[str, Any]) -> Settings:
    """The settings with those of a file with these tables, which other processes of the home read, too."""
    file = settings.home / "tidemark.toml"
    file.parent.mkdir(exist_ok=True)
    replace_text(file, tomlkit.dumps(tables))
    return with_tables_of_now(settings)


def kill_broker(home: Settings, chance: random.Random) -> int:
    """Kills one or more nodes of the broker of a home, and returns their number when they have ended."""
    running = embedded.status(home)
    assert running is not None, "the broker has ended by itself"
    pids = set(chance.sample(running.pids, chance.randint(1, len(running.pids))))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: (left := embedded.status(home)) is None or not pids & set(left.pids), 60)
    return len(pids)


def revive(home: Settings, servers: str) -> None:
    """Starts the killed nodes of a broker again at their addresses. A client that looks for a node from a port of its
    own choice may have taken that very port for a moment, and a busy machine takes long to start one."""
    at_its_port = home.changed(bootstrap_servers="")
    if home.broker.nodes == 1:  # several nodes know each other by their ports, and keep them
        at_its_port = at_its_port.changed(broker_port=int(servers.rpartition(":")[2]))
    deadline = time.monotonic() + 240
    while True:
        try:
            embedded.start(at_its_port)
            return
        except PlatformError as error:
            if not re.search("is taken|did not answer", str(error)) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
