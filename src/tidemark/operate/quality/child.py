"""Checks in a process of their own, which gives way to the flows and ends with the pipeline.

The pipeline sends a moment as a line of JSON to the process's standard input, and reads a line with the results from
its standard output. The input ends when the pipeline does, for any reason, SIGKILL included.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

from tidemark.errors import PlatformError, QualityError, first_line
from tidemark.operate.quality.moment import Moment
from tidemark.settings import Settings

Check = Callable[[Moment], list[dict[str, Any]]]

# The first limits the threads of numpy and Arrow, the second those of delta-rs.
_FEW_THREADS = {"OMP_NUM_THREADS": "1", "TOKIO_WORKER_THREADS": "2"}


@contextmanager
def checking(settings: Settings, command: Sequence[str]) -> Iterator[Check]:
    """A check in the process that `command` starts, whose program calls `answer`. It starts with the first check,
    and again if it has ended. The check raises QualityError if the process fails to check, and PlatformError if it
    ends."""
    child = _Child(command, {**os.environ, **settings.environment(), **_FEW_THREADS})
    try:
        yield child.check
    finally:
        child.end()


class _Child:
    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    def check(self, at: Moment) -> list[dict[str, Any]]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, env=self._environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        try:
            print(at.to_json(), file=asked, flush=True)
            line = answered.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PlatformError(f"the process that checks the tables ended with status {self.end()}")
        said = json.loads(line)
        if "failed" in said:
            raise QualityError(said["failed"])
        results: list[dict[str, Any]] = said["results"]
        return results

    def end(self) -> int:
        """Ends the process. Returns its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(BrokenPipeError), process:  # closes its input, which ends it
            pass
        return process.returncode


def give_way() -> None:
    """Lets this process run only when no other needs the CPU. Called before it starts any thread. Signals to the
    pipeline's process group do not end it; the pipeline's end does."""
    os.nice(19)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def answer(load: Callable[[], Check]) -> None:
    """Answers until the input ends, and then ends the process at once. `load` returns the check."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for output of libraries
    moments: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(moments,), daemon=True).start()
    check = load()
    while True:
        at = Moment.from_json(moments.get())
        try:
            said: dict[str, Any] = {"results": check(at)}
        except Exception as error:  # the pipeline logs it, and asks again
            said = {"failed": first_line(error)}
        print(json.dumps(said), file=answers, flush=True)


def _listen(moments: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        moments.put(line)
    os._exit(0)
