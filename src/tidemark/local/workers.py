"""Processes that do parts of the work of this one, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager

from tidemark.errors import PlatformError

_MOST = 8
# How often it is asked whether the processes of a pool live.
_LOOK_SECONDS = 1.0


def usual_number() -> int:
    """One per core, at most eight."""
    return min(_MOST, os.cpu_count() or 1)


@contextmanager
def worker_pool(number: int, begin: Callable[[], object] = int) -> Iterator[Executor]:
    """A pool of `number` processes, in each of which `begin` was called; with one, a thread of this process.

    Where processes are forked, this one calls it for all of them: use the pool before any thread is started. Raises
    PlatformError if one of the processes was killed.
    """
    closed = threading.Event()
    if number == 1:
        pool: Executor = ThreadPoolExecutor(1)
    elif sys.platform == "linux":  # elsewhere a fork is not safe beside the system's own threads
        begin()
        pool = ProcessPoolExecutor(number, multiprocessing.get_context("fork"), _begin)
        pool.submit(int)  # starts the processes
    else:
        pool = ProcessPoolExecutor(number, multiprocessing.get_context("spawn"), _begin, (begin,))
    if isinstance(pool, ProcessPoolExecutor):
        threading.Thread(target=_break_off, args=(pool, closed), daemon=True).start()
    try:
        yield pool
        # Python would report a pool that is still ending when Python itself ends.
        pool.shutdown(cancel_futures=True)
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        if isinstance(error, BrokenExecutor):
            raise PlatformError(
                "a process that worked on the lines was killed",
                "If the kernel's log names its out-of-memory killer, free memory. Start again: what was read is kept.",
            ) from error
        raise
    finally:
        closed.set()


def _break_off(pool: ProcessPoolExecutor, closed: threading.Event) -> None:
    """Ends a pool one of whose processes was killed. The pool notices that by itself, unless it waits for the rest of
    an answer of that process."""
    processes = pool._processes
    while not any(each.exitcode for each in processes.values()):
        if closed.wait(_LOOK_SECONDS):
            return
    if not closed.wait(_LOOK_SECONDS):
        for each in list(processes.values()):
            each.terminate()
        pool._result_queue._writer.close()  # type: ignore[attr-defined]


def _begin(begin: Callable[[], object] = int) -> None:
    # Ctrl-C reaches all processes of a terminal: the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    begin()


def _end_with_parent() -> None:
    """Ends this process once the one that started it has ended, killed or not."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
