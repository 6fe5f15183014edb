"""Objects that cannot be read: whether each is at fault, or the store."""

from __future__ import annotations

from collections.abc import Callable

from tidemark.errors import InputError
from tidemark.objects.faults import DeniedError, PassingError, RefusedError
from tidemark.objects.fetching import WORKERS

# After this many failures in a row, as many as requests at a time, the store is at fault.
MOST_FAILURES = WORKERS


class Failures:
    """The failures of the objects of one store, in their order. An error of the store is raised once, instead of one
    error for each object; errors of single objects go to `complain`."""

    def __init__(self, complain: Callable[[InputError], None], *, lasting: bool) -> None:
        """`lasting`: the objects are read again later."""
        self._complain = complain
        self._lasting = lasting
        self._any_read = False
        self._held: list[InputError] = []

    def passed(self) -> None:
        """Notes that an object was read, so that the failures before it are those of single objects."""
        self._any_read = True
        self._release()

    def add(self, error: InputError) -> None:
        """Notes that an object was not read. Raises the error if the store is at fault."""
        if isinstance(error, RefusedError) and not (self._any_read and isinstance(error, DeniedError)):
            raise error
        self._held.append(error)
        if len(self._held) >= MOST_FAILURES:
            self._held.clear()
            raise error

    def settle(self) -> None:
        """Notes that there are no more objects. Raises the last error if the store has answered for none."""
        silent = all(isinstance(each, PassingError) for each in self._held)
        if self._held and silent and not self._any_read and not self._lasting:
            raise self._held.pop()
        self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        for error in held:
            self._complain(error)
