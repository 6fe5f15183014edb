"""Requests in threads of their own: one without an answer delays neither a stop nor the end of the process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, TypeVar

Stopped = Callable[[], bool]
T = TypeVar("T")

_LOOK_SECONDS = 0.2


def begun(call: Callable[[], T]) -> Future[T]:
    """Begins a call in a thread."""
    result = Future[T]()
    Thread(target=settle, args=(result, call), daemon=True).start()
    return result


def settle(result: Future[T], call: Callable[[], T]) -> None:
    """Makes a call, and sets its result or its error, unless the result was cancelled."""
    if result.set_running_or_notify_cancel():
        try:
            result.set_result(call())
        except BaseException as error:  # raised again by the reader of the result
            result.set_exception(error)


def arrived(result: Future[Any], stopped: Stopped) -> bool:
    """Waits for a result; false if stopped before it is there."""
    while not result.done():
        if stopped():
            return False
        wait([result], _LOOK_SECONDS)
    return True
