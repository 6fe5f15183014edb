"""Processes that tests start, and processes that others have started."""

from __future__ import annotations

import atexit
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, AnyStr

import psutil

from tests.fork_server import Call
from tidemark.local.process import process_mark, wait_until

_ROOT = Path(__file__).parents[1]
_SET_CHILD_SUBREAPER = 36
# What an interpreter, its libraries or the loader read when they start: a fork has them from its server.
_READ_AT_START = (
    "ARROW_",
    "LANG",
    "LC_",
    "LD_",
    "MALLOC_",
    "MIMALLOC_",
    "OMP_",
    "PYTHON",
)
_NAMES = list(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]
# Options of Popen that a fork cannot have, with their defaults.
_OTHERS = {
    "executable": None,
    "preexec_fn": None,
    "close_fds": True,
    "pass_fds": (),
    "shell": False,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "process_group": -1,
}


def gone(pids: Iterable[int], seconds: float = 10) -> bool:
    """Whether these processes have ended in time. On a busy machine one that was killed is there for another moment."""
    wanted = list(pids)
    return wait_until(lambda: not any(process_mark(pid) for pid in wanted), seconds)


class Popen(subprocess.Popen[AnyStr]):
    """`subprocess.Popen`, with which a Python command starts without importing the product's libraries again.

    `python -m MODULE`, `python -c CODE` and the command `tidemark` of this environment run in a fork of a process that
    has imported them (`tests.fork_server`). The fork is a child like any other. Use `subprocess.Popen` where the
    subject is the start itself, or what a command imports.
    """

    def _execute_child(self, *given: Any) -> None:
        options = dict(zip(_NAMES, given, strict=True))
        arguments = _python_arguments(options)
        if arguments is None:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pipes = {
            name: options[name]
            for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        }
        ends = (pipes["p2cread"], pipes["c2pwrite"], pipes["errwrite"])
        call = Call(
            caller=os.getpid(),
            arguments=arguments,
            environment=_environment(options),
            directory=os.fspath(options["cwd"] or Path.cwd()),
            leads=options["start_new_session"],
        )
        try:
            self.pid = _server().fork(call, [n if end == -1 else end for n, end in enumerate(ends)])
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes.values())  # type: ignore[attr-defined]


def run(
    command: Any,
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` by `Popen` of this module."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **options) as process:
        try:
            output, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


def in_background(task: str, parent: int | None = None) -> list[psutil.Process]:
    """The processes for a task that a process (default: this one) and its children have started."""
    result = []
    for each in psutil.Process(parent).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "tidemark.operate.background" in each.cmdline() and task in each.cmdline():
                result.append(each)
    return result


def _python_arguments(options: Mapping[str, Any]) -> list[str] | None:
    """The arguments of the command's interpreter; None if it needs one of its own."""
    if sys.platform != "linux" or any(options.get(name, value) != value for name, value in _OTHERS.items()):
        return None
    if _of_start(_environment(options)) != _AT_START:
        return None
    program, *arguments = map(os.fspath, options["args"])
    if program == str(Path(sys.executable).with_name("tidemark")):
        return [program, *arguments]
    return arguments if program == sys.executable and arguments[:1] in (["-c"], ["-m"]) else None


def _environment(options: Mapping[str, Any]) -> dict[str, str]:
    given: Mapping[str, str] | None = options["env"]
    return dict(os.environ if given is None else given)


def _of_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


# A test may change them before the server starts.
_AT_START = _of_start(os.environ)


class _Server:
    """The process that forks, started with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        others = {name: value for name, value in os.environ.items() if not name.startswith(_READ_AT_START)}
        # OpenBLAS starts threads when it is imported. /proc shows a fork's arguments and environment where those of the
        # server are, which therefore take more room.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", str(other.fileno()), "-" * 8_000],
            cwd=_ROOT,
            env={**others, **_AT_START, "OPENBLAS_NUM_THREADS": "1", "ROOM": "-" * 32_000},
            stdin=subprocess.DEVNULL,
            pass_fds=[other.fileno()],
        )
        other.close()
        atexit.register(self.end)

    def fork(self, call: Call, descriptors: list[int]) -> int:
        """Returns the pid of the fork that runs a call."""
        with self._lock:
            _adopt(True)
            try:
                socket.send_fds(self._connection, [json.dumps(asdict(call)).encode()], descriptors)
                pid = self._connection.recv(16)
            finally:
                _adopt(False)
        assert pid, "the fork server has ended"
        return int(pid)

    def end(self) -> None:
        self._connection.close()
        self._process.wait()


@cache
def _server() -> _Server:
    return _Server()


def _adopt(whether: bool) -> None:
    """Sets whether descendants become children of this process when their parents end."""
    numbers = map(ctypes.c_ulong, (_SET_CHILD_SUBREAPER, whether, 0, 0, 0))
    assert ctypes.CDLL(None).prctl(*numbers) == 0
