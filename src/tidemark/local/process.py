"""Processes of a home: records of running ones, start and end, on Linux and macOS."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidemark.errors import PlatformError
from tidemark.settings import Settings

log = logging.getLogger("tidemark.home")

_PORT_SECONDS = 1.0
# Environment of processes that read much again and again. By default Arrow gives memory back to the system at once, and
# the kernel clears all pages of the next rows.
KEEPING_MEMORY = {"MIMALLOC_PURGE_DELAY": "60000"}


def prepare_home(settings: Settings) -> None:
    """Creates the home's directories, for their owner only. Raises PlatformError if the home cannot be written."""
    try:
        _protect(settings)
        for directory in (settings.home, settings.run_directory, settings.logs):
            directory.mkdir(exist_ok=True)
            if not os.access(directory, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied", str(directory))
    except OSError as error:
        raise PlatformError(
            f"cannot write the home {settings.home}: {error.strerror}",
            "Name another directory with --home or TIDEMARK_HOME.",
        ) from error


@contextlib.contextmanager
def appending(settings: Settings) -> Iterator[None]:
    """Held while rows are appended to a table outside of batches: upkeep does not delete their files meanwhile."""
    if not settings.run_directory.is_dir():
        prepare_home(settings)
    with locked(settings.run_directory / "append.lock"):
        yield


def _protect(settings: Settings) -> None:
    """Restricts the home to its owner unless `shared_home` is set, because everybody who can enter it can read it."""
    home = settings.home
    home.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        home.mkdir(mode=0o777 if settings.shared_home else 0o700)
    there = home.stat()
    if settings.shared_home or not there.st_mode & 0o077 or there.st_uid != os.geteuid():
        return
    everyday = {place for top in (Path.cwd(), Path.home()) for place in (top, *top.parents)}
    if there.st_mode & stat.S_ISVTX or home.resolve() in everyday:
        log.warning("other users can read the home %s: give it a directory of its own", home)
        return
    home.chmod(stat.S_IMODE(there.st_mode) & 0o700)
    log.warning("other users could read the home %s: from now on only its owner can (shared_home)", home)


def temporary_directory(settings: Settings) -> Path:
    """A directory of the home for temporary files of this process and its children.

    It belongs to this process until its end. The call removes directories of processes that have ended.
    """
    root = settings.home / "tmp"
    root.mkdir(exist_ok=True)
    with locked(settings.run_directory / "tmp.lock"):
        for left in root.glob("process-*"):
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                descriptor = os.open(left, os.O_RDONLY)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(left, ignore_errors=True)
                finally:
                    os.close(descriptor)
        made = Path(tempfile.mkdtemp(prefix="process-", dir=root))
        # Never closed: the kernel releases the lock when the process ends.
        fcntl.flock(os.open(made, os.O_RDONLY), fcntl.LOCK_EX)
    return made


def write_record(path: Path, pid: int | None = None, **facts: Any) -> None:
    """Writes a run record atomically: `facts`, and, with a `pid`, the process they describe."""
    record = dict(facts)
    if pid is not None:
        record |= {
            "pid": pid,
            "pid_mark": process_mark(pid),
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    replace_text(path, json.dumps(record) + "\n")


def replace_text(path: Path, text: str, mode: int = 0o666) -> None:
    """Replaces a file atomically: readers find the complete old or new text, even after a kill. `mode` is that
    of `open`, minus the umask."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.touch(mode)
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def read_record(path: Path) -> dict[str, Any]:
    """The run record at `path`, whether or not its process lives; empty if it is missing or unreadable."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def live_record(path: Path) -> dict[str, Any] | None:
    """The run record at `path` if its process still runs, else None.

    `pid_mark` distinguishes the process from a later one with the same pid.
    """
    record = read_record(path)
    pid = record.get("pid")
    if not isinstance(pid, int):
        return None
    mark = process_mark(pid)
    return record if mark and mark == record.get("pid_mark", mark) else None


def process_mark(pid: int) -> str | None:
    """The start time of a process, which identifies it among processes with this pid. None if it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The second field, the command in parentheses, may contain spaces and parentheses.
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (ProcessLookupError, PermissionError):
        return None
    return mark_from_ps(pid)


def mark_from_ps(pid: int) -> str | None:
    """`process_mark` without /proc, as on macOS."""
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    state, _, started = done.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


def spawn(
    command: Sequence[str], log: Path, *, guarded: bool = False, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts `command` in its own process group, with its output appended to `log`.

    `guarded` ties it to the calling process through `tidemark.local.guard`: it ends with the caller, even
    after SIGKILL. Otherwise it continues alone.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            guard_command(command) if guarded else list(command),
            stdin=subprocess.PIPE if guarded else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def guard_command(command: Sequence[str]) -> list[str]:
    """`command`, wrapped so that it ends with the process that holds its standard input."""
    return [sys.executable, "-m", "tidemark.local.guard", *command]


def terminate(pid: int, timeout: float) -> bool:
    """Ends a process with SIGTERM, then, after `timeout` seconds, it and its whole group with SIGKILL.

    `pid` must lead its process group, as after `spawn`. True if SIGTERM was enough.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    ended = wait_until(lambda: process_mark(pid) is None, timeout)
    kill_group(pid)
    return ended


def kill_group(pid: int) -> None:
    """Kills the remaining processes of the group led by `pid`."""
    # macOS answers PermissionError for a group with only zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], timeout: float, interval: float = 0.05) -> bool:
    """Waits until `condition` holds, at most `timeout` seconds. True if it does."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval)
    return True


def port_is_free(port: int, address: str = "127.0.0.1") -> bool:
    """Whether a server can listen on `port` of `address` now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        # As servers do, so that connections of an earlier server in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True


def frees_up(port: int, address: str = "127.0.0.1") -> bool:
    """Whether `port` is free now or in a moment: a killed server may hold its port a little longer."""
    return wait_until(lambda: port_is_free(port, address), _PORT_SECONDS)


def free_port(address: str = "127.0.0.1") -> int:
    """A free port of `address`."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Holds the lock file `path`; the kernel releases it when the process ends for any reason.

    Yields whether the lock is held: always, unless `wait` is false and another process holds it.
    """
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
