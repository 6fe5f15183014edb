"""Retention of rows: the table `[retention]` and the setting `retention_days`, and their enforcement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction

from tidemark.contract import quality_tables
from tidemark.contract.expression import Expression, column
from tidemark.contract.quality_tables import ACCESS
from tidemark.contract.table import Table
from tidemark.errors import SettingError
from tidemark.figures.reader_delta import execute
from tidemark.home import Home
from tidemark.stream.changes import RETENTION
from tidemark.stream.table_state import TableState, record_states, recorded

_HOUR = 3600
_EVENT_TIME = "event_time"

RECORD_DAYS = 400.0


def retention_days(text: str, tables: Sequence[Table]) -> Mapping[str, float]:
    """Days by table of a setting like `quality.progress=7,silver.rejected=30`; RECORD_DAYS for the record of access.

    A quality table that is not among the tables has no rows to limit. Raises SettingError for an unknown table, one
    without a column of time, or days that are no positive number.
    """
    known = {table.name: table for table in tables}
    by_table = {ACCESS.name: RECORD_DAYS} if ACCESS.name in known else {}
    absent = {table.name for table in quality_tables.TABLES} - known.keys()
    for part, name, days in _limits(text):
        if name in absent:
            continue
        if name not in known or not known[name].time:
            able = ", ".join(table.name for table in tables if table.time)
            raise SettingError(f"retention_days: cannot limit {name!r}", f"Tables with a time are {able}.")
        try:
            by_table[name] = float(days)
        except ValueError:
            by_table[name] = 0.0
        if not 0 < by_table[name] < 1e6:
            raise SettingError(
                f"retention_days: {part!r} has no positive number of days",
                "Write it like silver.rejected=30.",
            )
    return by_table


def limited(home: Home) -> frozenset[str]:
    """The names of the tables that keep their rows for a time only, or have done so."""
    by_days = {name for _, name, _ in _limits(home.settings.upkeep.retention_days)}
    now = datetime.now(UTC)
    return frozenset(by_days | {table.name for table in home.tables if complete_from(home, table, now)})


def _limits(text: str) -> Iterator[tuple[str, str, str]]:
    """Each part of the setting, its table and its days."""
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, days = (text_part.strip() for text_part in part.partition("="))
        yield part, name, days


def expiry(home: Home, table: Table, now: datetime) -> str:
    """SQL condition for the rows of a table whose time is over, by the settings `[retention]` and `retention_days`;
    empty if there are none."""
    days = _days(home, table)
    conditions = [older(table, now - timedelta(days=days))] if days else []
    oldest = oldest_kept(home, table, now)
    if oldest is not None:
        conditions.append(_before(table, oldest))
    return " OR ".join(f"({each})" for each in conditions)


def _days(home: Home, table: Table) -> float | None:
    """The days after which `retention_days` deletes rows of a table; None if it keeps all."""
    return retention_days(home.settings.upkeep.retention_days, home.tables).get(table.name)


def oldest_kept(home: Home, table: Table, now: datetime) -> datetime | None:
    """The event time before which `[retention]` deletes rows of a table, the start of an hour, or of a window of the
    table; None if it keeps all."""
    age = None
    if table.lines in ("all", "rejected"):
        age = home.settings.retention.age("lines")
    elif table.lines or table in home.graph.visited:
        age = home.settings.retention.age("requests")
    elif table.layer == "gold":
        age = home.settings.retention.age("figures")
    if age is None:
        return None
    window = (table.aggregation(home.settings.meaning).window_seconds if table.aggregation else None) or 0
    # A window is deleted once all of it is over.
    return floor(now - age, max(window, _HOUR))


def unexpired(home: Home, accepted: Table, now: datetime) -> Expression | None:
    """The condition for the rows of the table of accepted lines whose time is not over; None if it keeps all."""
    start = _start(home, accepted, now, oldest_kept(home, accepted, now))
    return column(_EVENT_TIME) >= start if start else None


def kept_from(home: Home, name: str) -> datetime | None:
    """The time from which on a table has its rows: older ones are deleted, or about to be. None if it keeps all."""
    table, now = home.graph.by_name[name], datetime.now(UTC)
    return _start(home, table, now, complete_from(home, table, now))


def _start(home: Home, table: Table, now: datetime, kept: datetime | None) -> datetime | None:
    """The later one of `kept` and the time before which `retention_days` deletes rows."""
    days = _days(home, table)
    starts = [kept, now - timedelta(days=days) if days else None]
    return max((each for each in starts if each), default=None)


def complete_from(home: Home, table: Table, now: datetime) -> datetime | None:
    """The event time from which on a table of lines has all of them: the start of an hour; None if it has all.

    Rows that `retention_days` has deleted were selected by time of arrival, which may be a day before the time in the
    line.
    """
    starts = [recorded(home.lakehouse, table.name).kept_since, oldest_kept(home, table, now)]
    return max((start for start in starts if start), default=None)


def record_kept(home: Home, table: Table, now: datetime) -> None:
    """Records before rows are deleted from which event time on the table keeps all."""
    days = _days(home, table)
    by_days = ceil(now - timedelta(days=days - 1 if table.lines == "all" else days), _HOUR) if days else None
    known = complete_from(home, table, now)
    kept = max((each for each in (by_days, known) if each), default=None)
    if kept:
        record_states(home.lakehouse, {table.name: TableState(kept_since=kept)})


def expired_ends(home: Home, condition: str) -> dict[int, int]:
    """By partition of the topic, the offset after the last line of bronze that fulfils the condition."""
    target = home.lakehouse.delta(home.graph.lines)
    query = (
        f"SELECT topic, partition, max(offset) AS last FROM lines WHERE {condition} GROUP BY topic, partition"
    )
    rows = execute(query, {"lines": target}).read_all().to_pylist()
    topic = home.settings.kafka.topic
    return {row["partition"]: row["last"] + 1 for row in rows if row["topic"] == topic}


def expired_files(home: Home) -> list[str]:
    """The files of tables, those of old versions included, that have rows whose time is over. Raises TableError."""
    now, lakehouse, expired = datetime.now(UTC), home.lakehouse, []
    for table in home.tables:
        oldest = oldest_kept(home, table, now)
        directory = lakehouse.directory(table)
        there = lakehouse.files.sizes(directory) if oldest and lakehouse.exists(table) else {}
        for name in sorted(name for name in there if name.endswith(".parquet")):
            rows = pq.read_table(f"{directory}/{name}", filesystem=lakehouse.files.system, partitioning=None)
            times = [rows[name] for name in _times(table) if name in rows.column_names]
            if pc.any(pc.less(pc.coalesce(*times), pa.scalar(oldest))).as_py():
                expired.append(f"{lakehouse.path(table)}/{name}".removeprefix(f"{home.settings.home}/"))
    return expired


def iso(moment: datetime) -> str:
    """A moment as SQL has it."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def ceil(moment: datetime, seconds: int) -> datetime:
    """The start of the first whole window from a moment on."""
    return floor(moment + timedelta(seconds=seconds, microseconds=-1), seconds)


def floor(moment: datetime, seconds: int) -> datetime:
    """The start of the window that contains a moment."""
    return datetime.fromtimestamp(int(moment.timestamp()) // seconds * seconds, UTC)


def _before(table: Table, oldest: datetime) -> str:
    """SQL condition for rows whose event time, or else time of arrival, is before `oldest`."""
    return f"coalesce({', '.join(_times(table))}) < '{iso(oldest)}'"


def _times(table: Table) -> list[str]:
    """The columns by which rows expire, the preferred one first."""
    times = dict.fromkeys((_EVENT_TIME, table.time, table.clock))
    return [name for name in times if name in table.column_names]


def delete_expired(target: DeltaTable, condition: str) -> int:
    """Deletes rows, in a commit that tables made of this one do not follow. Returns their number."""
    number = (target.transaction_version(RETENTION) or 0) + 1
    marked = CommitProperties(app_transactions=[Transaction(RETENTION, number)])
    gone = target.delete(condition, commit_properties=marked)
    return int(gone.get("num_deleted_rows") or 0)


def older(table: Table, before: datetime) -> str:
    """SQL condition for rows before a time: by the table's time, or by the time of writing if it has none."""
    oldest = f"'{iso(before)}'"
    if table.time == table.clock:
        return f"{table.time} < {oldest}"
    return f"{table.time} < {oldest} OR {table.time} IS NULL AND {table.clock} < {oldest}"
