"""Runs an example's parts as processes: the broker, the job, and the generator of its input."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType

from examples.kit import run
from examples.kit.job import Job
from examples.kit.load import Load
from tidemark.errors import InputError, PlatformError
from tidemark.kafka import client as kafka
from tidemark.local import broker, broker_setup
from tidemark.local.directories import prepare_home
from tidemark.local.jars import broker_jars, spark_jars
from tidemark.local.java import require_java
from tidemark.local.process import kill_group, spawn, wait_until
from tidemark.local.records import live_record
from tidemark.settings import Settings
from tidemark.signals import stop_signals
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import of

START_SECONDS = 120.0
SHOW_SECONDS = 1.0
# Parts end in this order, each with this many seconds; the sum is below 10 s. Followers of
# the job are stopped together with it.
_PATIENCE = {"load": 1.0, "job": 4.0, "followers": 1.0, "broker": 3.5}


class _Stopped(Exception):  # noqa: N818 - no error
    """The conductor was stopped."""


class Conductor:
    """A context in which the parts run. At its end all parts have ended, whatever happened."""

    def __init__(self, job: Job, module: str, settings: Settings, load: Load) -> None:
        self._job = job
        self._jobs = {"job": job} | {follower.name: follower for follower in job.followers}
        self._settings = settings
        self._load = load
        self._module = module
        self._parts: dict[str, subprocess.Popen[bytes]] = {}
        self._signals = ExitStack()
        self._stopping = threading.Event()
        self._killed_at: float | None = None

    def __enter__(self) -> Conductor:
        self._stopping = self._signals.enter_context(stop_signals(signal.SIGHUP))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        followers = [name for name in self._jobs if name != "job"]
        for name, patience in _PATIENCE.items():
            if name == "job":
                for follower in followers:
                    if follower in self._parts:
                        self._parts[follower].terminate()
            for part in followers if name == "followers" else [name]:
                self._end(part, patience)
        self._signals.close()

    def run(
        self, show: Callable[[], None], *, kill: bool, say: Callable[[str], None] = lambda text: None
    ) -> bool:
        """Starts everything and shows results until the input is generated and processed. False if it was stopped
        before. The input begins when the job is ready, which `say` gets to know. With `kill` the job is killed in the
        middle of the input and started again.

        Raises PlatformError for missing requirements of the machine and for a failed part, and with `kill` InputError
        if the topics are not empty.
        """
        try:
            began = time.monotonic()
            self._prepare(fresh=kill)
            self._start_jobs()
            for part, job in self._jobs.items():
                self._await(part, partial(self._runs, job))
            # It sends history, and then waits until the job is ready.
            self._parts["load"] = self._spawn_self("load")
            for part, job in self._jobs.items():
                self._await(part, run.ready_file(job, self._settings).exists)
            say(f"ready after {time.monotonic() - began:.0f} s, the input begins")
            self._make_input(show, kill)
            for part, job in self._jobs.items():
                run.ask_to_finish(job, self._settings)
                while self._is_running(part):
                    show()
                    self._pause(SHOW_SECONDS)
                self._require(part, 0)
        except _Stopped:
            return False
        show()
        return True

    def outages(self) -> list[tuple[float, float]]:
        """Periods without a ready job after `run`, in epoch seconds: from its kill until it was ready again, or now."""
        if self._killed_at is None:
            return []
        files = [run.ready_file(job, self._settings) for job in self._jobs.values()]
        return [(self._killed_at, max(f.stat().st_mtime if f.exists() else time.time() for f in files))]

    def _make_input(self, show: Callable[[], None], kill: bool) -> None:
        middle = time.monotonic() + (self._load.seconds or 0) / 2
        while kill or self._is_running("load"):
            if kill and time.monotonic() >= middle and self._may_be_killed():
                self._killed_at = time.time()
                for part in self._jobs:
                    self._end(part, patience=0)
                self._start_jobs()
                kill = False
            for part in self._jobs:
                self._require(part)
            show()
            self._pause(SHOW_SECONDS)
        self._require("load", 0)

    def _may_be_killed(self) -> bool:
        """True once the job has results to continue from, or, on a slow machine, during its first batches."""
        return run.all_committed(self._job, self._settings) or not self._is_running("load")

    def _prepare(self, *, fresh: bool) -> None:
        require_java()
        prepare_home(self._settings)
        spark_jars(self._settings.java)
        if self._settings.kafka.uses_embedded_broker and broker.status(self._settings) is None:
            broker.check_port(self._settings)
            broker_jars(self._settings.java)
            home = ["--home", str(self._settings.home)]
            self._parts["broker"] = self._spawn(
                "broker", ["-m", "tidemark", "broker", "start", "--foreground", *home]
            )
            self._await("broker", self._broker_answers)
        at = broker.located(self._settings).kafka
        topics = [topic for job in self._jobs.values() for topic in job.topics().items()]
        for topic, partitions in topics:
            kafka.ensure_topic(at, topic, partitions=partitions)
            if fresh and any(kafka.end_offsets(at, topic).values()):
                raise InputError(
                    f"topic {topic!r} holds records of an earlier run, which would be counted in",
                    "Check with a home and a Kafka of their own: without --home, or with a new one.",
                )
        store = DeltaRsStore(of(self._settings))
        for job in self._jobs.values():
            for table in job.all_tables:
                store.ensure(table, table.reader_properties(self._settings))

    def _broker_answers(self) -> bool:
        running = broker.status(self._settings)
        return running is not None and broker.answers(running.bootstrap_servers)

    def _start_jobs(self) -> None:
        for part, job in self._jobs.items():
            for file in (run.finish_file(job, self._settings), run.ready_file(job, self._settings)):
                file.unlink(missing_ok=True)
            self._parts[part] = self._spawn_self(part)

    def _runs(self, job: Job) -> bool:
        record = live_record(run.record_file(job, self._settings))
        return record is not None and record.get("state") == "running"

    def _spawn_self(self, part: str) -> subprocess.Popen[bytes]:
        load = self._load
        options = {"seed": load.seed, "rate": load.rate, "late": load.late, "seconds": load.seconds}
        arguments = [f"--{name}={value}" for name, value in options.items() if value is not None]
        home = f"--home={self._settings.home}"
        return self._spawn(part, ["-m", self._module, "--part", part, home, *arguments])

    def _spawn(self, part: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        return spawn([sys.executable, *arguments], self._log(part), guarded=True)

    def _log(self, part: str) -> Path:
        if part == "broker":
            return broker_setup.output_file(self._settings)
        name = self._job.name if part in ("job", "load") else part
        return self._settings.logs / (f"{name}-load.log" if part == "load" else f"{name}-job.log")

    def _await(self, part: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            self._require(part)
            self._pause(0.05)
            if time.monotonic() > deadline:
                raise PlatformError(
                    f"{part} did not start within {START_SECONDS:.0f} s", self._last_words(part)
                )

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped

    def _is_running(self, part: str) -> bool:
        return self._parts[part].poll() is None

    def _require(self, part: str, status: int | None = None) -> None:
        """Raises PlatformError unless the part runs, or has ended with `status`."""
        ended = self._parts[part].poll()
        if ended != status and ended is not None:
            raise PlatformError(f"{part} ended with status {ended}", self._last_words(part))

    def _last_words(self, part: str) -> str:
        with contextlib.suppress(OSError):
            lines = self._log(part).read_text(encoding="utf-8", errors="replace").splitlines()
            for line in reversed(lines):
                if re.match(r"[\w.]+(Error|Exception)\b|\w+: ", line):
                    return line
        return f"See {self._log(part)}."

    def _end(self, name: str, patience: float) -> None:
        process = self._parts.pop(name, None)
        if process is None:
            return
        if patience:
            # Only to the guard, which forwards it to the part. The part stops a JVM that it started.
            process.terminate()
            wait_until(lambda: process.poll() is not None, patience)
        kill_group(process.pid)
        process.wait()
        if process.stdin:
            process.stdin.close()
