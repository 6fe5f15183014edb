"""Sums old rows of quality.accounts per day: otherwise the table grows with every batch, without limit.

Every sum over the table stays the same, and so does the last batch that had accepted, or rejected, lines: the check for
lost batches (`tidemark.operate.losses`) compares it with the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.operate.retention import iso

DAYS = 30
_COUNTS = ("received", "accepted", "rejected", "duplicate", "late")
BATCHES = "batches"


def old(now: datetime) -> str:
    """SQL condition for the rows to sum: of batches that started before the last DAYS whole days (UTC)."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return f"started_at < '{iso(today - timedelta(days=DAYS))}'"


def summed(accounts: str, now: datetime) -> str:
    """SQL query for the rows in place of the old ones of `accounts`, and the number of BATCHES in each: the columns of
    quality.accounts, with a row per flow, day, and kind of batch (with or without accepted, and rejected, lines). Both
    its times are the start of its first batch. Rows that are already summed stay as they are."""
    values = {
        "batch_id": "max(batch_id)",
        **{name: f"sum({name})" for name in _COUNTS},
        **dict.fromkeys(("started_at", "committed_at"), "min(started_at)"),
    }
    columns = ", ".join(f"{values.get(name, name)} AS {name}" for name in ACCOUNTS.column_names)
    return (
        f"SELECT {columns}, count(*) AS {BATCHES} FROM {accounts} WHERE {old(now)}"
        " GROUP BY flow, date_trunc('DAY', started_at), accepted > 0, rejected > 0"
    )
