"""All errors that Tidemark raises for its user: the problem and the remedy."""

from __future__ import annotations

import errno
import re

# Numbers of OSError by which a disk, or a user's share of it, is full.
FULL = (errno.ENOSPC, errno.EDQUOT)
# Numbers of a file system that cannot be written, or not by this user.
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
# How libraries say that the system gave them no memory, no thread or no file, in errors of classes of their own.
_NO_MEMORY = re.compile(
    r"(?i)cannot allocate memory|(out of|not enough) memory|failed to (map segment|allocate)|bad_alloc"
    r"|null pointer when creating"
)
_NO_THREAD = re.compile(r"(?i)(can't (start|spawn)|failed to launch)[a-z ]* thread")
_NO_FILE = re.compile(r"(?i)too many open files")
_NO_PERMISSION = re.compile(r"(?i)permission denied|operation not permitted|read-only file system")
_WRITABLE = (
    "The user who runs Tidemark must be able to read and write its home; --home or TIDEMARK_HOME names it."
)
MORE_THREADS = "Raise the limit of processes and threads (`ulimit -u`, TasksMax=, a container's pids limit)"
# How delta-rs marks the cause of what the line above says, and the colours in its text.
_CAUSE, _COLOURS = "\u21b3", re.compile(r"\x1b\[[0-9;]*m")


class TidemarkError(Exception):
    """An error the user can act on; the CLI prints it as one line and exits with `exit_code`.

    `problem` names the thing and its bad value, `remedy` the action to take.
    """

    exit_code = 1

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}. {remedy}" if remedy else problem)


class SettingError(TidemarkError):
    """A setting has an unknown name or a value that cannot be used."""

    exit_code = 2


def first_line(error: BaseException) -> str:
    """A foreign error as one line: its first line and, if delta-rs names causes, the last of them; the error's class if
    it has no text."""
    lines = [line.strip() for line in _COLOURS.sub("", str(error)).splitlines() if line.strip()]
    causes = [line.removeprefix(_CAUSE).strip() for line in lines if line.startswith(_CAUSE)]
    return ": ".join([*lines[:1], *causes[-1:]]) or type(error).__name__


class PlatformError(TidemarkError):
    """A requirement of the machine is missing or wrong: Java, jars, a port, a writable home."""


class KafkaError(TidemarkError):
    """The Kafka cluster cannot be reached, refuses the client, or has lost unread data."""


class InputError(TidemarkError):
    """An input file or a user's database is missing, unreadable or corrupt."""


class TableError(TidemarkError):
    """A table or a checkpoint is missing, corrupt, or incompatible with this version."""


class HomeBusyError(TidemarkError):
    """Another process already runs on the same home."""


def unwritable(problem: str, error: OSError, remedy: str) -> PlatformError:
    """The error for a file or directory that cannot be written: `problem` with its cause, and the remedy, which for a
    full disk is to free space."""
    if error.errno in FULL:
        return PlatformError(f"{problem}: the disk is full", "Free space and start again.")
    return PlatformError(f"{problem}: {error.strerror}", remedy)


def of_machine(error: BaseException) -> PlatformError | None:
    """The error for an exception whose cause is the machine: a full disk, too little memory, too few threads or open
    files, a missing permission. None for any other exception."""
    if lack := shortage(error, first_line(error)):
        return lack
    if not isinstance(error, OSError):
        return None
    if error.errno in FULL:
        where = f"{error.filename}: " if error.filename else ""
        return PlatformError(f"{where}the disk is full", "Free space and start again.")
    if error.errno not in _REFUSED or not error.filename:
        return None
    return PlatformError(f"{error.filename}: {error.strerror}", _WRITABLE)


def conflict(table: str, attempts: int, error: BaseException) -> TableError:
    """The error for commits to a table that others prevented each time."""
    return TableError(
        f"table {table}: commit failed {attempts} times: {first_line(error)}",
        "Is another pipeline writing to the same tables?",
    )


def refused_file(error: BaseException, problem: str) -> PlatformError | None:
    """The error for a library's exception by which this process may not read or write a file of the home: `problem`
    with that cause. None for any other exception."""
    match = _NO_PERMISSION.search(str(error))
    return PlatformError(f"{problem}: {match[0]}", _WRITABLE) if match else None


def shortage(error: BaseException, what: str) -> PlatformError | None:
    """The error for an exception by which the system gave this process no memory, no thread or no open file; `what`
    says which part of the program met it. None for any other exception."""
    text = str(error)
    if isinstance(error, MemoryError) or _NO_MEMORY.search(text):
        return _refused("too little memory", what, "Free memory, or raise the limit of this process")
    if _NO_THREAD.search(text):
        return _refused("too few threads", what, MORE_THREADS)
    if _NO_FILE.search(text):
        return _refused("too few open files", what, "Raise their limit (`ulimit -n`, LimitNOFILE=)")
    return None


def _refused(lack: str, what: str, remedy: str) -> PlatformError:
    return PlatformError(f"{lack}: {what}", f"{remedy}, and start again: nothing is lost.")


class QualityError(TidemarkError):
    """A critical data-quality expectation failed."""

    exit_code = 3
