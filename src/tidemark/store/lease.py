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
from tidemark.store.lakehouse import Lakehouse

log = logging.getLogger("tidemark.store")

# A lease that is not renewed for this long has been left behind by its holder.
LEASE_SECONDS = 90.0
_RENEW_SECONDS = 20.0


@contextmanager
def only_writer(house: Lakehouse, what: str, patience: float = LEASE_SECONDS + 10) -> Iterator[None]:
    """Held by the pipeline, or a rebuild, over catalog tables; waits up to `patience` s for another to end.

    A lease is a file that its holder writes anew again and again. Whether it still does is seen by whoever waits,
    on a clock that nobody sets: machines need not agree on the time. Raises HomeBusyError if another's stays
    valid, PlatformError if the file cannot be written.
    """
    path = Path(house.checkpoint_root) / "writer.lease"
    own = uuid.uuid4().hex
    last, since = _read(path), time.monotonic()
    deadline = since + patience
    while (other := _read(path)) is not None:
        if other != last:
            last, since = other, time.monotonic()
        if time.monotonic() >= since + LEASE_SECONDS:
            break
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
        other = _read(path)
        if other is not None and other["id"] != own:
            log.error("%s on %s has taken the lease of this process, which did not renew it in time: stop one"
                      " of both", other["what"], other["host"])  # fmt: skip
            return
        try:
            _write(path, own, what)
        except PlatformError as error:  # the next one tries again
            log.error("%s", error)


def _read(path: Path) -> dict[str, str] | None:
    try:
        found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:  # just being written
        return {"id": "", "what": "another writer", "host": "another machine"}
    return found


def _write(path: Path, own: str, what: str) -> None:
    held = {"id": own, "what": what, "host": socket.gethostname(), "renewal": uuid.uuid4().hex}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(held), encoding="utf-8")
    except OSError as error:
        raise PlatformError(
            f"cannot write {path}: {error.strerror}",
            "Give WRITE VOLUME on the volume of checkpoint_location.",
        ) from error
