"""What a home must have before an operation."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.errors import SettingError, TableError
from tidemark.home import REQUESTS, Home
from tidemark.operate import losses
from tidemark.store import deltalog
from tidemark.store.lease import only_writer
from tidemark.stream import schema_check


def only_writer_of(home: Home, what: str) -> AbstractContextManager[threading.Event]:
    """Held by an operation `what` that writes the home's tables; see `tidemark.store.lease.only_writer`."""
    keeps = home.lakehouse.can.keeps_home
    return only_writer(home.lakehouse, what, home=home.settings.home if keeps else None)


def require_lasting_key(home: Home) -> None:
    """Requires a visitor key where the home does not stay: a key made in it would differ on the next cluster."""
    if not home.lakehouse.can.keeps_home and not home.settings.meaning.visitor_key:
        raise SettingError(
            f"tables in {home.lakehouse.name} need a visitor_key that stays",
            "Set TIDEMARK_VISITOR_KEY, from a secret.",
        )


def require_tables(home: Home, *, lost: bool = False) -> None:
    """Raises TableError if the home's pipeline has not run yet or, unless they may be `lost`, if quality.accounts or
    quality.sites is missing."""
    # A job's home has accounts, too.
    missing = [table for table in (ACCOUNTS, SITES) if not home.store.exists(table)]
    if not missing:
        return
    if home.lakehouse.can.durable or deltalog.last_batch(home.checkpoint(REQUESTS)) < 0:
        raise TableError(
            f"no tables yet in {home.lakehouse.name}", "Run `tidemark run` or `tidemark demo` first."
        )
    if not lost:
        where = home.lakehouse.path(missing[0])
        raise TableError(f"table {missing[0].name} at {where} is lost", losses.REPAIR)


def require_whole(home: Home) -> None:
    """Raises TableError if the tables have lost what the flows committed."""
    losses.require_whole(home, schema_check.known(home))
