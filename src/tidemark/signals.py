"""An event that signals set, by which a process ends its work in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType


class Stopping(threading.Event):
    """An event that ends work; `signalled` is whether a signal has set it."""

    signalled = False


@contextmanager
def stop_signals(*more: int, second_ends: bool = False) -> Iterator[Stopping]:
    """An event that SIGINT, SIGTERM and `more` signals set instead of their default effects, and the end of the block.

    With `second_ends`, a second signal has its default effect. Signals reach the main thread only: in another thread
    none is caught. Nor is a SIGHUP that this process was told to ignore, as by nohup.
    """
    stopping = Stopping()
    # A handler interrupts the main thread anywhere, also where that holds the event's lock: setting the event in the
    # handler would wait for ever. The queue has no such lock, and another thread sets the event.
    ended: SimpleQueue[None] = SimpleQueue()

    def await_end() -> None:
        ended.get()
        stopping.set()

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.signalled = True
        ended.put(None)
        if second_ends:
            signal.signal(number, signal.SIG_DFL)

    in_main_thread = threading.current_thread() is threading.main_thread()
    caught = {signal.SIGINT, signal.SIGTERM, *more} if in_main_thread else set()
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        caught.discard(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in caught}
    threading.Thread(target=await_end, name="signals", daemon=True).start()
    try:
        yield stopping
    finally:
        ended.put(None)
        stopping.set()
        for number, handler in before.items():
            signal.signal(number, handler)
