"""Work in a process of its own, with a lower priority than the flows, that ends with the process that started it.

Requests are lines on the process's standard input, answers lines on its standard output; both are pickled. The input
ends when the starting process does, for any reason, SIGKILL included.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from queue import SimpleQueue
from typing import IO, Any, TypeVar

from tidemark import logs
from tidemark.errors import PlatformError, TidemarkError, first_line
from tidemark.settings.sections import WatchingSettings

Request = TypeVar("Request")
Answer = TypeVar("Answer")

# The first limits the threads of numpy and Arrow, the second those of delta-rs.
_FEW_THREADS = {"OMP_NUM_THREADS": "1", "TOKIO_WORKER_THREADS": "2"}


@contextmanager
def in_background(
    task: str, nice: int, settings: WatchingSettings, load: Callable[[], Callable[[Request], Answer]]
) -> Iterator[Callable[[Request], Answer]]:
    """The function that `load` returns, called in a process of its own, which logs by `settings`.

    `nice` is added to this process's nice value. The process starts with the first call, and again if it has ended.
    `load`, requests and answers must be picklable. A call raises TidemarkError if the function fails, and PlatformError
    if the process ends.
    """
    process = _Process(task, nice, (settings, load))
    try:
        yield process.call
    finally:
        process.end()


class _Process:
    def __init__(self, task: str, nice: int, start: tuple[WatchingSettings, Callable[[], Any]]) -> None:
        self._task = task
        self._command = [sys.executable, "-m", __name__, task, str(nice)]
        self._start = start
        self._process: subprocess.Popen[str] | None = None

    def call(self, request: Any) -> Any:
        begins = self._process is None
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                env={**os.environ, **_FEW_THREADS},
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        line = ""
        with suppress(BrokenPipeError):
            if begins:
                _send(requests, self._start)
            _send(requests, request)
            line = answers.readline()
        if not line:
            raise PlatformError(f"the process for {self._task} ended with status {self.end()}")
        answer, trouble = _received(line)
        if trouble:
            raise TidemarkError(trouble)
        return answer

    def end(self) -> int:
        """Ends the process. Returns its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(BrokenPipeError), process:  # closes its input, which ends it
            pass
        return process.returncode


def main() -> None:
    """Answers until the input ends, and then ends the process at once."""
    os.nice(int(sys.argv[2]))  # before any thread starts
    # Signals to the pipeline's process group do not end this process; the pipeline's end does.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for output of libraries
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    settings, load = _received(lines.get())
    logs.configure(settings)
    function = cache(load)
    while True:
        request = _received(lines.get())
        try:
            answer = function()(request), ""
        except Exception as error:  # the pipeline logs it, and asks again
            answer = None, first_line(error)
        _send(answers, answer)


def _listen(lines: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def _send(to: IO[str], value: Any) -> None:
    print(b64encode(pickle.dumps(value)).decode(), file=to, flush=True)


def _received(line: str) -> Any:
    return pickle.loads(b64decode(line))


if __name__ == "__main__":
    main()
