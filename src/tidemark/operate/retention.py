"""Retention of rows: the setting `retention_days`, and its enforcement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable

from tidemark.contract.quality_tables import ACCESS
from tidemark.contract.table import Table
from tidemark.errors import SettingError

RECORD_DAYS = 400.0


def retention_days(text: str, tables: Sequence[Table]) -> Mapping[str, float]:
    """Days by table of a setting like `quality.progress=7,silver.rejected=30`; RECORD_DAYS for the record of access.

    Raises SettingError for an unknown table, one without a column of time, or days that are no positive
    number.
    """
    known = {table.name: table for table in tables}
    found = {ACCESS.name: RECORD_DAYS} if ACCESS.name in known else {}
    for part, name, days in _limits(text):
        if name not in known or not known[name].time:
            able = ", ".join(table.name for table in tables if table.time)
            raise SettingError(f"retention_days: cannot limit {name!r}", f"Tables with a time are {able}.")
        try:
            found[name] = float(days)
        except ValueError:
            found[name] = 0.0
        if not 0 < found[name] < 1e6:
            raise SettingError(
                f"retention_days: {part!r} has no positive number of days",
                "Write it like silver.rejected=30.",
            )
    return found


def limited(text: str) -> frozenset[str]:
    """The names of the tables that such a setting limits."""
    return frozenset(name for _, name, _ in _limits(text))


def _limits(text: str) -> Iterator[tuple[str, str, str]]:
    """Each part of the setting, its table and its days."""
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, days = (piece.strip() for piece in part.partition("="))
        yield part, name, days


def delete_older(target: DeltaTable, table: Table, days: float) -> int:
    """Deletes rows whose `table.time` is more than `days` ago. Returns their number."""
    gone = target.delete(older(table, f"'{datetime.now(UTC) - timedelta(days=days):%Y-%m-%dT%H:%M:%S.%f}Z'"))
    return int(gone.get("num_deleted_rows") or 0)


def older(table: Table, cut: str) -> str:
    """SQL condition for rows before `cut`: by the table's time, or by the time of writing if it has none."""
    if table.time == table.clock:
        return f"{table.time} < {cut}"
    return f"{table.time} < {cut} OR {table.time} IS NULL AND {table.clock} < {cut}"
