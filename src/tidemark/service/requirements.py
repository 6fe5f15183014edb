"""What a home must have before an operation."""

from __future__ import annotations

from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.errors import TableError
from tidemark.home import REQUESTS, Home
from tidemark.operate import losses
from tidemark.store import deltalog


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
