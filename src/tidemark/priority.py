"""The priority of threads whose work may wait."""

from __future__ import annotations

import os
import threading
from contextlib import suppress


def give_way(nice: int) -> None:
    """Adds to the nice value of the calling thread, so that other threads go first, those of this process too."""
    thread = threading.get_native_id()
    with suppress(OSError):  # only Linux takes threads for processes
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + nice)
