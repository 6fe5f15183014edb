"""One writer at a time where no file lock reaches: a lease beside the checkpoints, renewed while it is held."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.errors import HomeBusyError, PlatformError
from tidemark.lakehouse import Lakehouse

log = logging.getLogger("tidemark.catalog")

# Whoever ended without giving the lease back is waited for no longer than this.
LEASE_SECONDS = 90.0
_RENEW_SECONDS = 20.0


@contextmanager
def only_writer(house: Lakehouse, what: str, patience: float = LEASE_SECONDS + 10) -> Iterator[None]:
    """Held by the pipeline, or a rebuild, over catalog tables; waits up to `patience` s for another to end.

    A lease is a file with its holder and the time until which it counts. Raises HomeBusyError if another's
    stays valid, PlatformError if the file cannot be written.
    """
    path = Path(house.checkpoint_root) / "writer.lease"
    own = uuid.uuid4().hex
    deadline = time.monotonic() + patience
    while (other := _valid(path)) is not None:
        if time.monotonic() >= deadline:
            raise HomeBusyError(
                f"{other['what']} on {other['host']} writes to the tables of {house.catalog_schema}",
                "Stop it, or pause its job, and start again.",
            )
        time.sleep(min(1.0, patience))
    _write(path, own, what)
    done = threading.Event()
    renewing = threading.Thread(target=_renew, args=(path, own, what, done), name="lease", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        done.set()
        renewing.join(timeout=10)
        if (_read(path) or {}).get("id") == own:
            path.unlink(missing_ok=True)


def _renew(path: Path, own: str, what: str, done: threading.Event) -> None:
    while not done.wait(_RENEW_SECONDS):
        try:
            _write(path, own, what)
        except PlatformError as error:  # the next one tries again
            log.error("%s", error)


def _valid(path: Path) -> dict[str, str] | None:
    found = _read(path)
    return found if found is not None and float(found["until"]) > time.time() else None


def _read(path: Path) -> dict[str, str] | None:
    try:
        found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # never held, or just being written
        return None
    return found


def _write(path: Path, own: str, what: str) -> None:
    held = {"id": own, "what": what, "host": socket.gethostname(), "until": str(time.time() + LEASE_SECONDS)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(held), encoding="utf-8")
    except OSError as error:
        raise PlatformError(
            f"cannot write {path}: {error.strerror}",
            "Give WRITE VOLUME on the volume of checkpoint_location.",
        ) from error
