"""The locks of a home: upkeep, savepoints and rebuilds run between batches, never within one.

Every batch holds the lock `gate` shared; operations that need unchanged tables hold it exclusively. A second lock,
`turnstile`, is taken first and prevents starvation of the latter, which still lets new batches pass while one takes
seconds. Patient batches hold a third lock, `patience`, shared, and operations exclusively. It is taken before the
others, so that who waits for a patient batch holds up no other one. If a change of several tables was interrupted, the
next process that gets the lock finishes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

from tidemark.errors import HomeBusyError, TableError, unwritable
from tidemark.local.directories import prepare_home
from tidemark.local.locks import locked
from tidemark.settings import Settings
from tidemark.stream.swap import Swap

# A file of the home that exists while a savepoint is being restored.
RESTORING = "restoring"
# The lock that the pipeline and jobs of any name share.
_ANY = "running"
# Who waits for rest keeps new batches out for so long at a time, which is enough for a short batch to end. Between its
# attempts it pauses, each time twice as long, so that a long batch of one flow does not hold up all others.
_ATTEMPT_SECONDS = 0.5
_PAUSES_SECONDS = (0.2, 0.4, 0.8, 1.6, 3.2)


@contextmanager
def batch(settings: Settings, *, patient: bool = False) -> Iterator[None]:
    """Held by a query while it commits one micro-batch. A `patient` one may take long: who waits for it holds up no
    other one."""
    with _batch(settings, "shared" if patient else "none"):
        yield


@contextmanager
def patient_at_rest(settings: Settings) -> Iterator[None]:
    """Held while the tables that patient batches commit must not change. Other batches go on."""
    with _batch(settings, "alone"):
        yield


@contextmanager
def _batch(settings: Settings, patience: Literal["none", "shared", "alone"]) -> Iterator[None]:
    while True:
        with ExitStack() as locks:
            if patience != "none":
                locks.enter_context(_held(settings, "patience", shared=patience == "shared"))
            with _held(settings, "turnstile", shared=True):
                locks.enter_context(_held(settings, "gate", shared=True))
            if not Swap(settings).interrupted:
                yield
                return
        settle(settings)


@contextmanager
def at_rest(settings: Settings) -> Iterator[None]:
    """Held while the tables must not change: waits for running batches, and blocks new ones once it is held. New
    patient batches wait from the beginning."""
    with _held(settings, "patience"), _rest(settings):
        require_restored(settings)
        Swap(settings).finish()
        yield


@contextmanager
def _rest(settings: Settings) -> Iterator[None]:
    for pause in _PAUSES_SECONDS:
        with _held(settings, "turnstile"):
            ends = time.monotonic() + _ATTEMPT_SECONDS
            while time.monotonic() < ends:
                with _held(settings, "gate", wait=False) as held:
                    if held:
                        yield
                        return
                time.sleep(0.01)
        time.sleep(pause)
    with _held(settings, "turnstile"), _held(settings, "gate"):
        yield


@contextmanager
def appending(settings: Settings) -> Iterator[None]:
    """Held while rows are appended to a table outside of batches: upkeep does not delete their files meanwhile."""
    with _held(settings, "append"):
        yield


@contextmanager
def nobody_writes(settings: Settings) -> Iterator[None]:
    """Held while no writer, of a batch or of other rows (`appending`), is between a file and its commit."""
    with at_rest(settings), appending(settings):
        yield


def settle(settings: Settings) -> None:
    """Finishes a change of several tables that was interrupted, if there is one."""
    if Swap(settings).interrupted:
        with at_rest(settings):
            pass


@contextmanager
def only_one(settings: Settings, name: str = "pipeline", *, settled: bool = True) -> Iterator[None]:
    """Held by the pipeline, or by a job of another name, as long as it lives. Unless `settled` is false, an
    interrupted change of several tables is finished first. Raises HomeBusyError if another one of that name runs on
    the home, TableError if the home is only half restored."""
    with (
        _held(settings, name, wait=False, prepare=True) as alone,
        _held(settings, _ANY, shared=True, wait=False) as admitted,
    ):
        if not (alone and admitted):
            raise HomeBusyError(
                f"another {name} is running on {settings.home}",
                "Stop it first, or give this one another home with --home.",
            )
        require_restored(settings)
        if settled:
            settle(settings)
        yield


@contextmanager
def no_pipeline(settings: Settings, *, nor_job: bool = False) -> Iterator[bool]:
    """Whether no pipeline, and with `nor_job` no job, runs on the home. If true, none can start meanwhile."""
    with _held(settings, _ANY if nor_job else "pipeline", wait=False) as held:
        yield held


@contextmanager
def only_rebuild(settings: Settings) -> Iterator[None]:
    """Held by a rebuild. Raises HomeBusyError beside another one, or beside a savepoint."""
    # Upkeep leaves the source tables alone meanwhile.
    with _only_operation(settings), _held(settings, "rebuild"):
        yield


@contextmanager
def only_savepoint(settings: Settings) -> Iterator[None]:
    """Held while savepoints are made, restored or deleted: no upkeep deletes files meanwhile. Raises HomeBusyError
    beside another one, or beside a rebuild."""
    with _only_operation(settings), _held(settings, "upkeep"):
        yield


@contextmanager
def upkeep(settings: Settings) -> Iterator[bool]:
    """Held by upkeep. Yields whether no rebuild reads the source tables; none begins meanwhile."""
    with _held(settings, "upkeep"), _held(settings, "rebuild", wait=False) as no_rebuild:
        yield no_rebuild


@contextmanager
def _only_operation(settings: Settings) -> Iterator[None]:
    with _held(settings, "one-rebuild", wait=False) as held:
        if not held:
            raise HomeBusyError(
                f"a rebuild or a savepoint is under way on {settings.home}", "Try again when it is done."
            )
        yield


def require_restored(settings: Settings, savepoint: str = "") -> None:
    """Raises TableError if the restoring of a savepoint (empty: of any) into the home was interrupted."""
    mark = settings.home / RESTORING
    if mark.exists():
        name = mark.read_text(encoding="utf-8").strip()
        if savepoint not in ("", name):
            return
        raise TableError(
            f"the restoring of savepoint {name} into {settings.home} was interrupted",
            f"Repeat it: `tidemark savepoint restore {name}`, as before.",
        )


@contextmanager
def _held(
    settings: Settings, name: str, *, shared: bool = False, wait: bool = True, prepare: bool = False
) -> Iterator[bool]:
    path = settings.run_directory / f"{name}.lock"
    with ExitStack() as stack:
        try:
            if prepare or not path.exists():
                prepare_home(settings)
            held = stack.enter_context(locked(path, shared=shared, wait=wait))
        except OSError as error:
            raise unwritable(
                f"cannot write to the home {settings.home}",
                error,
                "Make it writable, or choose another with --home or TIDEMARK_HOME.",
            ) from error
        yield held
