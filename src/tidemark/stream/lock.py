"""The batch lock: upkeep, savepoints and rebuilds run between batches, never within one.

Advisory file locks of the home, which the kernel releases when a process dies for any reason:
every batch holds the lock `gate` shared; operations that need unchanged tables hold it exclusively. A second lock,
`turnstile`, is taken first and prevents starvation of the latter. If a change of several
tables was interrupted, the next process that gets the lock finishes it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.errors import HomeBusyError, PlatformError, TableError
from tidemark.local.process import appending, locked, prepare_home
from tidemark.settings import Settings
from tidemark.stream import swap

# A file of the home that exists while a savepoint is being restored.
RESTORING = "restoring"
# The lock that the pipeline and jobs of any name share.
_ANY = "running"


@contextmanager
def batch(settings: Settings) -> Iterator[None]:
    """Held by a query while it commits one micro-batch."""
    gate = _shared(settings)
    while swap.interrupted(settings):
        gate.close()
        settle(settings)
        gate = _shared(settings)
    try:
        yield
    finally:
        gate.close()


@contextmanager
def at_rest(settings: Settings) -> Iterator[None]:
    """Held while the tables must not change: waits for running batches, blocks new ones."""
    with _locked(settings, "turnstile", fcntl.LOCK_EX), _locked(settings, "gate", fcntl.LOCK_EX):
        _require_whole(settings)
        swap.finish(settings)
        yield


@contextmanager
def nobody_writes(settings: Settings) -> Iterator[None]:
    """Held while no writer, of a batch or of other rows (`appending`), is between a file and its commit."""
    with at_rest(settings), appending(settings):
        yield


def settle(settings: Settings) -> None:
    """Finishes a change of several tables that was interrupted, if there is one."""
    if swap.interrupted(settings):
        with at_rest(settings):
            pass


@contextmanager
def only_one(settings: Settings, name: str = "pipeline", *, settled: bool = True) -> Iterator[None]:
    """Held by the pipeline, or by a job of another name, as long as it lives. Unless `settled` is false, an
    interrupted change of several tables is finished first. Raises HomeBusyError if another one of that name runs on
    the home, TableError if the home is only half restored."""
    prepare_home(settings)
    with _open(settings, name) as file, _open(settings, _ANY) as any_name:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(any_name, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HomeBusyError(
                f"another {name} is running on {settings.home}",
                "Stop it first, or give this one another home with --home.",
            ) from None
        _require_whole(settings)
        if settled:
            settle(settings)
        yield


@contextmanager
def no_pipeline(settings: Settings, *, nor_job: bool = False) -> Iterator[bool]:
    """Whether no pipeline, and with `nor_job` no job, runs on the home. If true, none can start meanwhile."""
    with _open(settings, _ANY if nor_job else "pipeline") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@contextmanager
def only_rebuild(settings: Settings) -> Iterator[None]:
    """Held by a rebuild. Raises HomeBusyError if another one is running."""
    prepare_home(settings)
    with locked(settings.run_directory / "one-rebuild.lock", wait=False) as held:
        if not held:
            raise HomeBusyError(
                f"another rebuild is running on {settings.home}", "Try again when it is done."
            )
        # Upkeep leaves the source tables alone while this is held.
        with locked(settings.run_directory / "rebuild.lock"):
            yield


def _require_whole(settings: Settings) -> None:
    mark = settings.home / RESTORING
    if mark.exists():
        name = mark.read_text(encoding="utf-8").strip()
        raise TableError(
            f"the restoring of savepoint {name} into {settings.home} was interrupted",
            f"Repeat it: `tidemark savepoint restore {name}`, as before.",
        )


def _shared(settings: Settings):  # type: ignore[no-untyped-def]
    with _locked(settings, "turnstile", fcntl.LOCK_SH):
        gate = _open(settings, "gate")
        fcntl.flock(gate, fcntl.LOCK_SH)
    return gate


@contextmanager
def _locked(settings: Settings, name: str, how: int) -> Iterator[None]:
    with _open(settings, name) as file:
        fcntl.flock(file, how)
        yield


def _open(settings: Settings, name: str):  # type: ignore[no-untyped-def]
    path = Path(settings.run_directory) / f"{name}.lock"
    if not path.exists():
        prepare_home(settings)
    try:
        return path.open("a")
    except OSError as error:
        raise PlatformError(
            f"cannot write to the home {settings.home}: {error.strerror}",
            "Make it writable, or choose another with --home or TIDEMARK_HOME.",
        ) from error
