"""One seeded scenario: pipeline, broker and import, each killed now and then while the others go on.

The seed decides the lines, how they fall into files and batches, which process is killed at which moment, and at which
start own hosts and a goal are declared, which history must then have, too. What the machine does between two moments it
does not decide, so a seed that failed is repeated.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests import processes
from tests.pipeline.declared_goals import CONDITIONS
from tests.pipeline.harness import assert_equal, fresh, received
from tests.pipeline.recount import recount
from tests.recovery.killing import (
    FILES,
    HISTORY_POINTS,
    POINTS,
    Pair,
    await_running,
    declaring,
    kill_at,
    kill_broker,
    revive,
    start_pipeline,
    traffic,
)
from tidemark.home import ACTIVITY, REQUESTS
from tidemark.kafka import client as kafka
from tidemark.operate.backfill import pending
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings
from tidemark.stream.lag import TopicLag, table_lag
from tidemark.traffic.site import HOST

GOAL = "product"
HOSTS = {"shop": [HOST]}
DECLARED = {"goals": {GOAL: {"path": "/products/*"}}, "sites": {"shop": {"hosts": [HOST]}}}

Say = Callable[[str], None]
_CATCH_UP_SECONDS = 150.0
# A start of the pipeline that does not come to its moment in this time is killed all the same.
_PATIENCE_SECONDS = 45.0


@dataclass(frozen=True)
class Plan:
    """What a seed says: (site, line) pairs, how many to a micro-batch, into how many files they are cut, the moments at
    which the processes are killed, and the number of the pipeline's start from which on DECLARED is declared."""

    seed: int
    pairs: list[Pair]
    batch_lines: int
    files: int
    pipeline: list[str]
    broker: list[float]
    imports: list[float]
    declared: int

    @classmethod
    def of(cls, seed: int, kills: int, lines: int) -> Plan:
        chance = random.Random(seed)
        targets = chance.choices(["pipeline", "broker", "imports"], [3, 2, 2], k=kills)
        pipeline = [_moment(chance) for _ in range(targets.count("pipeline"))]
        imports = targets.count("imports")
        declared = chance.randint(min(1, len(pipeline)), len(pipeline))
        for number in range(declared, len(pipeline)):
            if chance.random() < 0.6:
                pipeline[number] = f"{chance.choice(HISTORY_POINTS)}@1"
        return cls(
            seed=seed,
            pairs=traffic(seed, lines, rate=chance.choice([2, 10, 50])),
            batch_lines=chance.choice([400, 1_000, 3_000]),
            # An import each: a file may have lines of one site only.
            files=max(len(pipeline) + chance.randint(1, 3), imports),
            pipeline=pipeline,
            broker=[chance.uniform(0, 12) for _ in range(targets.count("broker"))],
            imports=[chance.uniform(0, 0.1) for _ in range(imports)],
            declared=declared,
        )

    def __str__(self) -> str:
        kills = [*self.pipeline, *(f"broker after {s:.1f} s" for s in self.broker)]
        kills += [f"import {s * 1000:.0f} ms after its first line" for s in self.imports]
        kills.insert(self.declared, "(own hosts and a goal declared)")
        return f"{len(self.pairs):,} lines in {self.files} files; kills: {', '.join(kills)}"


def _moment(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.4:
        return f"{chance.choice(POINTS)}@{chance.randint(1, 3)}"
    return chance.choice(FILES) if kind < 0.7 else f"after:{chance.uniform(0, 6):.2f}"


def play(
    plan: Plan, broker: Settings, directory: Path, say: Say = lambda text: None, java_options: str = ""
) -> int:
    """Plays a plan in a new home on the embedded broker of the home `broker`, compares every table, and
    returns how many processes were killed. Raises AssertionError where anything differs."""
    settings = fresh(broker, directory, batch_lines=plan.batch_lines)
    options = f"{settings.spark.driver_java_options} {java_options}".strip()
    settings = settings.changed(driver_java_options=options)
    stage = _Stage(settings, broker.changed(bootstrap_servers=""), directory, say)
    try:
        with (
            stage.acting(stage.kill_brokers, plan.broker, random.Random(plan.seed)),
            stage.acting(stage.import_files, plan),
        ):
            stage.run_pipelines(plan.pipeline, plan.declared)
        stage.catch_up(len(plan.pairs))
    finally:
        stage.end()
    assert_equal(settings, recount(plan.pairs, hosts=HOSTS, goals={GOAL: CONDITIONS[GOAL]}))
    client = AdminClient(kafka.client_config(settings.kafka))
    for deleted in client.delete_topics([settings.kafka.topic, f"{settings.kafka.topic}-imports"]).values():
        deleted.result(30)
    return stage.killed


class _Stage:
    """The processes of a scenario and who kills them, each in a thread of its own."""

    def __init__(self, settings: Settings, broker_home: Settings, directory: Path, say: Say) -> None:
        self._settings = settings
        self._broker_home = broker_home
        self._directory = directory
        self._say = say
        self._failures: list[BaseException] = []
        self._done = threading.Event()
        # Files wait for the next start of the pipeline, so that each one has lines to be killed over.
        self._files_due = threading.Semaphore(0)
        self._process: subprocess.Popen[str] | None = None
        self._lag = TopicLag(settings.kafka)
        self.killed = 0

    @contextmanager
    def acting(self, act: Callable[..., None], *arguments: object) -> Iterator[None]:
        def guarded() -> None:
            try:
                act(*arguments)
            except BaseException as failure:
                self._failures.append(failure)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        yield
        self._files_due.release(1_000)
        thread.join(_CATCH_UP_SECONDS)
        assert not thread.is_alive(), f"{act.__name__} does not end"
        for failure in self._failures:
            raise failure

    def run_pipelines(self, moments: list[str], declared: int) -> None:
        """Starts the pipeline, kills it at each moment, and leaves the last one running."""
        self._kill_pipelines(moments[:declared])
        self._settings = declaring(self._settings, DECLARED)
        self._kill_pipelines(moments[declared:])
        self._process = start_pipeline(self._settings)

    def _kill_pipelines(self, moments: list[str]) -> None:
        for moment in moments:
            while True:
                self._process = start_pipeline(self._settings, moment)
                self._files_due.release()
                killed = kill_at(self._settings, self._process, moment, _PATIENCE_SECONDS)
                if killed != "ended by itself":
                    break
                self._allow_ending(self._process)
            self.killed += 1
            self._say(f"killed the pipeline at {moment}, {killed}")

    def kill_brokers(self, delays: list[float], chance: random.Random) -> None:
        for delay in delays:
            self._done.wait(delay)
            killed = kill_broker(self._broker_home, chance)
            self.killed += killed
            self._say(f"killed {killed} nodes of the broker")
            self._done.wait(delay % 2)
            revive(self._broker_home, self._settings.kafka.bootstrap_servers)

    def import_files(self, plan: Plan) -> None:
        """Imports file after file; the first ones are killed, and all repeated until they succeed."""
        size = -(-len(plan.pairs) // plan.files)
        delays = list(plan.imports)
        for number, start in enumerate(range(0, len(plan.pairs), size)):
            if number:
                self._files_due.acquire()
            for site in ("default", "shop"):
                lines = [line for of, line in plan.pairs[start : start + size] if of == site]
                if not lines:
                    continue
                path = self._directory / f"{site}-{number}.log"
                path.write_bytes(b"".join(line + b"\n" for line in lines))
                if delays:
                    self._killed_import(path, site, delays.pop())
                self._import(path, site)

    def _killed_import(self, path: Path, site: str, delay: float) -> None:
        before = self._written()
        process = self._start_import(path, site)
        deadline = time.monotonic() + 20
        while process.poll() is None and self._written() == before and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(delay)
        process.kill()
        process.communicate()
        self.killed += 1
        self._say("killed an import")

    def _import(self, path: Path, site: str) -> None:
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        while True:
            process = self._start_import(path, site)
            output, _ = process.communicate(timeout=120)
            if process.returncode == 0:
                return
            assert "Traceback" not in output, output
            assert time.monotonic() < deadline, f"the import of {path.name} keeps failing: {output}"
            self._say(f"an import said: {output.strip()}")
            time.sleep(1)

    def _start_import(self, path: Path, site: str) -> subprocess.Popen[str]:
        return processes.Popen(
            [sys.executable, "-m", "tidemark", "import", str(path), "--site", site],
            env={**os.environ, **self._settings.environment()},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def _written(self) -> int:
        """Lines in the topic, those of open transactions included; 0 while the broker is away."""
        try:
            return sum(
                kafka.end_offsets(self._settings.kafka, self._settings.kafka.topic, committed=False).values()
            )
        except kafka.KafkaError:
            return 0

    def catch_up(self, lines: int) -> None:
        """Waits until every table has everything, and stops the pipeline, which must end cleanly."""
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        while not self._caught_up(lines):
            assert self._process is not None
            if self._process.poll() is not None:
                self._allow_ending(self._process)
                self._process = start_pipeline(self._settings)
            assert time.monotonic() < deadline, (
                f"{received(self._settings)} of {lines} lines after {_CATCH_UP_SECONDS} s"
            )
            time.sleep(0.5)
        await_running(self._settings, self._process)
        os.killpg(self._process.pid, signal.SIGTERM)
        output, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, output

    def _caught_up(self, lines: int) -> bool:
        pipeline = Pipeline.of(self._settings)
        waiting = partial(pipeline.store.rows_since, pipeline.graph.accepted)
        read = received(self._settings) >= lines and self._lag(pipeline.checkpoint(REQUESTS)) == 0
        return read and table_lag(waiting, pipeline.checkpoint(ACTIVITY)) == 0 and not pending(pipeline)

    def _allow_ending(self, process: subprocess.Popen[str]) -> None:
        """A pipeline may end when its broker is away, with one clear line; anything else is a failure."""
        for failure in self._failures:
            raise failure
        output, _ = process.communicate()
        assert "Traceback" not in output and process.returncode == 1, output
        assert "Kafka" in output or "broker" in output, output
        self._say(f"the pipeline said: {output.strip().splitlines()[-1]}")

    def end(self) -> None:
        self._done.set()
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        revive(self._broker_home, self._settings.kafka.bootstrap_servers)
