"""One writer at a time where file locks do not work: a lease that its holder renews."""

from __future__ import annotations

import logging
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tidemark.contract.store import Register
from tidemark.errors import HomeBusyError, PlatformError
from tidemark.store.lakehouse import Lakehouse

log = logging.getLogger("tidemark.store")

# A lease that is not renewed for this long has expired.
LEASE_SECONDS = 90.0
_RENEW_SECONDS = 20.0


@contextmanager
def only_writer(
    lakehouse: Lakehouse, what: str, patience: float = LEASE_SECONDS + 10, *, home: Path | None = None
) -> Iterator[threading.Event]:
    """Held by the pipeline, or a rebuild, for tables that other homes can also reach; waits up to `patience` s for
    the end of another holder. If the home's lock is sufficient, no lease is used. Gives an event that is set when
    another process has taken the lease, as it may from a process that was suspended; the holder must stop then.

    The holder rewrites its note periodically. A waiting process observes this with its monotonic clock, so machines
    need not agree on the time. A note of the same `home` is from a process that has ended, because
    the caller holds the home's lock. Raises HomeBusyError if another's stays valid, or took this one meanwhile,
    PlatformError if the note cannot be written.
    """
    register, lost = lakehouse.can.register, threading.Event()
    if register is None:
        yield lost
        return
    own = {"id": uuid.uuid4().hex, "what": what, "host": socket.gethostname(), "home": ""}
    if home is not None and lakehouse.can.keeps_home:
        own["home"] = str(home.resolve())
    _acquire(register, lakehouse.name, own, patience)
    done = threading.Event()
    renewing = threading.Thread(target=_renew, args=(register, own, done, lost), name="lease", daemon=True)
    renewing.start()
    try:
        yield lost
    finally:
        done.set()
        renewing.join(timeout=10)
        with suppress(PlatformError):  # it expires after LEASE_SECONDS
            if (register.read() or {}).get("id") == own["id"]:
                register.clear()
    if lost.is_set():
        raise HomeBusyError(
            f"another process has taken over the tables of {lakehouse.name}, because this one did not run for a while",
            "Let only one of both run. `tidemark quality` finds rows that both have written.",
        )


def _acquire(register: Register, tables: str, own: Mapping[str, str], patience: float) -> None:
    last, since = None, time.monotonic()
    deadline = since + patience
    while True:
        other = register.read()
        if other != last:
            last, since = other, time.monotonic()
        ended = other is None or _same_home(other, own) or time.monotonic() >= since + LEASE_SECONDS
        if ended and register.write(own):
            return
        if other is not None and time.monotonic() >= deadline:
            raise HomeBusyError(
                f"{other['what']} on {other['host']} writes to the tables of {tables}",
                "Stop it, or pause its job, and start again.",
            )
        time.sleep(min(1.0, patience))


def _same_home(other: Mapping[str, str], own: Mapping[str, str]) -> bool:
    return bool(own["home"]) and all(other.get(name) == own[name] for name in ("host", "home"))


def _renew(register: Register, own: Mapping[str, str], done: threading.Event, lost: threading.Event) -> None:
    while not done.wait(_RENEW_SECONDS):
        try:
            other = register.read()
            if (other is None or other["id"] == own["id"]) and register.write(own):
                continue
            other = register.read() or {"what": "another writer", "host": "another machine"}
            log.error(
                "%s on %s has taken the lease of this process, which did not renew it in time",
                other["what"],
                other["host"],
            )
            lost.set()
            return
        except PlatformError as error:  # the next one tries again
            log.error("%s", error)
