"""Processes that do parts of the work of another one."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.errors import PlatformError
from tidemark.local.workers import worker_pool

ANSWER_BYTES = 200_000_000


def killed_at_once() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_while_it_answers() -> bytes:
    """Ends when a part of its answer is in the pipe, which takes far less than all of it."""

    def watch() -> None:
        while not any("pipe_write" in file.read_text() for file in Path("/proc/self/task").glob("*/wchan")):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    return bytes(ANSWER_BYTES)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("work", [killed_at_once, killed_while_it_answers])
def test_a_killed_process_is_one_error(work: Callable[[], object]) -> None:
    with pytest.raises(PlatformError, match=r"was killed.*Start again"), worker_pool(2) as pool:
        pool.submit(work).result(60)
