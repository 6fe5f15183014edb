"""Time ranges for work in parts."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark.contract.expression import Expression, column
from tidemark.operate.rows import Rows

_MINUTE_SECONDS = 60


def time_ranges(source: Rows, time: str, rows_wanted: int) -> list[Expression]:
    """Ranges of the column `time` with about `rows_wanted` rows each, at least one minute."""
    counts = sorted(
        (minute, each["rows"]) for minute, each in source.counted(time, {}, _MINUTE_SECONDS).items()
    )
    conditions: list[Expression] = []
    first, rows = None, 0
    for number, (minute, added) in enumerate(counts, start=1):
        first = minute if first is None else first
        rows += added
        if rows >= rows_wanted or number == len(counts):
            # A range of the column itself, so that whole files are skipped.
            start, end = _moment(first), _moment(minute + 1)
            conditions.append((column(time) >= start) & (column(time) < end))
            first, rows = None, 0
    return conditions


def _moment(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * _MINUTE_SECONDS, UTC)


def since_then(rows: Rows, time: str, since: datetime | None) -> Rows:
    """The rows from `since` on; all without it."""
    return rows if since is None else rows.where(column(time) >= since)
