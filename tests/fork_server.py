"""`python -m tests.fork_server`: runs Python commands in forks of a process that has imported the product's libraries.

`tests.processes` starts it and sends the calls, because importing takes longer than most commands. A fork becomes a
child of the process that called, with its own arguments and environment in /proc, and ends as an interpreter ends.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tidemark.cli import COMMANDS

# What commands import. Great Expectations is missing: it takes four seconds, and few commands need it.
_IMPORTED = (
    "deltalake",
    "pandas",
    "pyarrow.acero",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyspark.sql.functions",
    "tidemark.cli.demo",
    "tidemark.cli.inferring",
    "tidemark.cli.look",
    "tidemark.cli.prepare",
    "tidemark.figures.report",
    "tidemark.importing.parquet",
    "tidemark.ingest.server",
    "tidemark.local.broker",
    "tidemark.local.dashboard",
    "tidemark.pipeline",
    "tidemark.privacy.door",
    "tidemark.service.forget",
    "tidemark.service.rebuild",
    "tidemark.service.repair",
    "tidemark.service.run",
    "tidemark.service.savepoints",
    "tidemark.service.upkeep",
    "tidemark.service.view",
    "tidemark.traffic.sinks",
    "uvicorn",
)


@dataclass(frozen=True)
class Call:
    """A command `python ARGUMENTS` of the process `caller`. `leads` a session of its own, as after setsid()."""

    caller: int
    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    leads: bool


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends with the process that calls
    for name in (*COMMANDS.values(), *_IMPORTED):
        importlib.import_module(name)
    # jemalloc is prepared for a fork, in which it has no threads of its own.
    threads = [file.read_text() for file in Path("/proc/self/task").glob("*/comm")]
    others = [name for name in threads if not name.startswith("jemalloc")]
    assert len(others) == 1, f"a process with several threads cannot be forked: {others}"
    tempfile.tempdir = None  # depends on the environment
    gc.collect()
    gc.freeze()
    call = _accept(connection)
    signal.signal(signal.SIGINT, interrupt)
    connection.send(str(os.getpid()).encode())
    connection.close()
    _run(list(call.arguments))


def _accept(connection: socket.socket) -> Call:
    """Forks for each call, and returns it in the fork."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if not data:
            os._exit(0)
        between = os.fork()
        if not between:
            # The caller is the nearest subreaper: the fork becomes its child when the process in between ends.
            if os.fork():
                os._exit(0)
            call = Call(**json.loads(data))
            _become(call, descriptors)
            return call
        os.waitpid(between, 0)
        for each in descriptors:
            os.close(each)


def _become(call: Call, descriptors: Sequence[int]) -> None:
    while os.getppid() != call.caller:
        time.sleep(0.0002)
    for target, each in enumerate(descriptors):
        os.dup2(each, target)
        os.close(each)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        stream = os.fdopen(number, before.mode, encoding=before.encoding, errors=before.errors, closefd=False)
        lines = name == "stderr" or stream.isatty()
        stream.reconfigure(line_buffering=lines, write_through=before.write_through)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if call.leads:
        os.setsid()
    status = Path(f"/proc/{call.caller}/status").read_text()
    os.umask(int(status.partition("\nUmask:")[2].split()[0], 8))
    os.chdir(call.directory)
    os.environ.clear()
    os.environ.update(call.environment)
    time.tzset()
    # Where /proc shows arguments and environment: the fields 48 to 51.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first, last, first_variable, last_variable = map(int, fields[45:49])
    _show(first, last, [sys.executable, *call.arguments])
    _show(first_variable, last_variable, [f"{name}={value}" for name, value in call.environment.items()])


def _show(start: int, end: int, texts: Sequence[str]) -> None:
    data = b"".join(os.fsencode(text) + b"\0" for text in texts)
    assert len(data) <= end - start, "the server was started with too few arguments or variables"
    ctypes.memmove(start, data.ljust(end - start, b"\0"), end - start)


def _run(arguments: list[str]) -> None:
    """Does what `python ARGUMENTS` does in the project's directory."""
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(arguments[1], "<string>", "exec"), module.__dict__)
    elif arguments[0] == "-m":
        sys.argv = ["-m", *arguments[2:]]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
