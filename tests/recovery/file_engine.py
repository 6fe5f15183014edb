"""Makes the tables of a world of log files without Kafka and Spark, each command in a process that may be killed.

Files are read as `tidemark view` reads them (`FileRun`).
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import processes
from tests.recovery import file_commands
from tests.recovery.world import World, explained
from tidemark.errors import TidemarkError

_ROOT = Path(__file__).parents[2]
# How glibc ends a process that has no memory for the data of a new thread.
_NO_THREAD_DATA = 127


@contextmanager
def commands() -> Iterator[subprocess.Popen[str]]:
    """The process that runs the commands of engines."""
    process = processes.Popen(
        [sys.executable, "-m", file_commands.__name__],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.communicate(timeout=60)


class FileEngine:
    """An engine of a world (`tests.recovery.world.Engine`), whose commands a process runs.

    `behind`: the tables may lack lines of files, because an import was killed or a savepoint restored.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.behind = False

    def add(self, world: World, path: Path) -> int:
        return int(self._run(world, "read", {world.files[path][0]: [str(path)]}, sites_of(world)))

    def settle(self, world: World) -> None:
        if self.behind:
            self.catch_up(world)

    def catch_up(self, world: World) -> None:
        self._run(world, "catch_up", sites_of(world))
        self.behind = False

    def rebuild(self, world: World, table: str) -> None:
        self._run(world, "rebuild", table, sites_of(world))

    def repair(self, world: World) -> None:
        raise AssertionError("nothing was damaged")

    def save(self, world: World, name: str) -> None:
        self._run(world, "save", name)

    def restore(self, world: World, name: str) -> None:
        self.behind = True
        self._run(world, "restore", name)

    def forget(self, world: World, address: str) -> None:
        self._run(world, "forget", address)

    def maintain(self, world: World) -> None:
        self._run(world, "maintain")

    def kill(self, world: World, moment: str, command: str, *arguments: Any) -> str:
        """Runs a command that is killed at a moment of `tests.recovery.killing`, a point or `after:<seconds>`. Returns
        what became of it."""
        self.behind = True
        status, text = self._call(world, command, arguments, moment=moment)
        if status == -signal.SIGKILL:
            return f"killed at {moment}"
        try:
            return f"{moment} did not come: {_outcome(status, text)}"
        except TidemarkError as error:
            return f"{moment} did not come: {error}"

    def run_short_of_memory(self, world: World, mebibytes: int, command: str, *arguments: Any) -> str:
        """Runs a command that may take so much address space more than it has at its start. Returns what became of it:
        it was done, or an error says why not, or the line of a library that aborts that there is too little memory."""
        self.behind = True
        status, text = self._call(world, command, arguments, mebibytes=mebibytes)
        if status == -signal.SIGKILL:  # delta-rs waits for a thread that the system does not start
            return "ends never"
        if status not in (-signal.SIGABRT, _NO_THREAD_DATA):
            try:
                return _outcome(status, text)
            except TidemarkError as error:
                return explained(error)
        match = re.search(".*(memory|thread|bad_alloc).*", text)
        assert match, text
        return match[0]

    def _run(self, world: World, command: str, *arguments: Any) -> str:
        return _outcome(*self._call(world, command, arguments))

    def _call(
        self, world: World, command: str, arguments: Sequence[Any], moment: str = "", mebibytes: int = 0
    ) -> tuple[int, str]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin and stdout
        call = {
            "environment": world.settings.environment(),
            "moment": moment,
            "mebibytes": mebibytes,
            "command": command,
            "tables": [table.name for table in world.tables],
            "arguments": arguments,
        }
        stdin.write(json.dumps(call) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        return answer["status"], answer["text"]


def sites_of(world: World) -> dict[str, str]:
    """The sites of the files, by path."""
    return {str(path): site for path, (site, _) in world.files.items()}


def _outcome(status: int, text: str) -> str:
    """The result of a command. Raises its TidemarkError, and AssertionError for any other failure."""
    assert status == 0, f"status {status}: {text}"
    result = json.loads(text.splitlines()[-1])
    if "problem" in result:
        raise TidemarkError(result["problem"], result["remedy"])
    return str(result["text"])
