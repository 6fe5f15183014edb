"""The directories of a home, for their owner only, and temporary ones."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

from tidemark import __version__
from tidemark.errors import PlatformError, unwritable
from tidemark.local.locks import locked
from tidemark.local.records import read_record, write_record
from tidemark.settings import Settings

# In the path of a table, delta-rs takes these for marks of a URL.
_MARKS = re.compile(r"[\[\]#?\\]|%[0-9A-Fa-f]{2}")
# The versions that made the home, and that wrote to it last.
_VERSION = "version.json"
log = logging.getLogger("tidemark.home")


def prepare_home(settings: Settings) -> None:
    """Creates the home's directories, for their owner only, and records the version that writes there. Raises
    PlatformError if the home cannot be written or has an unusable name, or as `require_version`."""
    _require_usable_name(settings.home.resolve())
    record = require_version(settings)
    try:
        _protect(settings)
        for directory in (settings.home, settings.run_directory, settings.logs):
            directory.mkdir(exist_ok=True)
            if not os.access(directory, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied", str(directory))
        if record.get("written") != __version__:
            first_version = record.get("made") or ("" if settings.tables.exists() else __version__)
            write_record(settings.home / _VERSION, made=first_version, written=__version__)
    except OSError as error:
        raise unwritable(
            f"cannot write the home {settings.home}",
            error,
            "Name another directory with --home or TIDEMARK_HOME.",
        ) from error


def _require_usable_name(home: Path) -> None:
    if mark := _MARKS.search(str(home)):
        raise PlatformError(
            f"tables cannot be opened below {home}, because of {mark[0]} in its path",
            "Name another directory with --home or TIDEMARK_HOME.",
        )


def require_version(settings: Settings) -> dict[str, Any]:
    """The versions that `made` the home, and have `written` to it last; empty for a new one. Raises PlatformError if a
    newer version of Tidemark has written it, whose tables this one may damage."""
    record = read_record(settings.home / _VERSION)
    written = record.get("written", "")
    theirs, own = (
        [int(number) for number in re.findall(r"\d+", version)[:3]] for version in (written, __version__)
    )
    if theirs > own:
        raise PlatformError(
            f"the home {settings.home} was written by Tidemark {written}, and this is {__version__}",
            "Use that version or a later one, or another home.",
        )
    return record


def _protect(settings: Settings) -> None:
    """Restricts the home to its owner unless `shared_home` is set, because everybody who can enter it can read it."""
    home = settings.home
    home.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        home.mkdir(mode=0o777 if settings.shared_home else 0o700)
    there = home.stat()
    if settings.shared_home or not there.st_mode & 0o077 or there.st_uid != os.geteuid():
        return
    everyday = {place for top in (Path.cwd(), Path.home()) for place in (top, *top.parents)}
    if there.st_mode & stat.S_ISVTX or home.resolve() in everyday:
        log.warning("other users can read the home %s: give it a directory of its own", home)
        return
    home.chmod(stat.S_IMODE(there.st_mode) & 0o700)
    log.warning("other users could read the home %s: from now on only its owner can (shared_home)", home)


def temporary_directory(settings: Settings) -> Path:
    """A directory of the home for temporary files of this process and its children.

    It belongs to this process until its end. The call removes directories of processes that have ended.
    """
    root = settings.home / "tmp"
    root.mkdir(exist_ok=True)
    with locked(settings.run_directory / "tmp.lock"):
        for left in root.glob("process-*"):
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                descriptor = os.open(left, os.O_RDONLY)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(left, ignore_errors=True)
                finally:
                    os.close(descriptor)
        directory = Path(tempfile.mkdtemp(prefix="process-", dir=root))
        # Never closed: the kernel releases the lock when the process ends.
        fcntl.flock(os.open(directory, os.O_RDONLY), fcntl.LOCK_EX)
    return directory
