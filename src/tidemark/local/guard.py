"""`python -m tidemark.local.guard COMMAND...`: runs a command that must not outlive its starter.

Standard input is a pipe whose other end only the starter holds. When the starter ends for any reason,
the pipe closes, and the guard stops the command. This works on Linux and macOS and for any
command, such as a Java broker. The guard forwards SIGTERM and SIGINT and returns the
command's exit status.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

# Seconds that an orphaned command has to end by itself.
GRACE = 8.0


def main(command: Sequence[str]) -> int:
    """Runs `command` to its end. Returns its exit status, or 128 + the signal that ended it."""
    awake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    # set_wakeup_fd reports only signals that have a Python handler.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        sys.stderr.write(f"tidemark: cannot start {command[0]}: {error.strerror}\n")
        return 127
    starter = sys.stdin.fileno()
    while child.poll() is None:
        ready, _, _ = select.select([starter, awake], [], [])
        if awake in ready:
            if {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} & set(os.read(awake, 64)):
                child.terminate()
        elif not os.read(starter, 64):
            _end_orphan(child)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _end_orphan(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    deadline = time.monotonic() + GRACE
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    # The group contains the processes that the command started, and the guard, whose status nobody reads.
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
