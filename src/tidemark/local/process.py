"""Processes: start, identity and end, on Linux and macOS."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

# Environment of processes that read much again and again. By default Arrow gives memory back to the system at once, and
# the kernel clears all pages of the next rows.
KEEPING_MEMORY = {"MIMALLOC_PURGE_DELAY": "60000"}


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
