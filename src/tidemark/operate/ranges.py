"""Time ranges for work in parts, and rounding to windows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_MINUTE = 60


def time_ranges(source: DataFrame, time: str, rows_wanted: int) -> list[Column]:
    """Ranges of the column `time` with about `rows_wanted` rows each, at least one minute."""
    minute = F.floor(F.unix_seconds(F.col(time)) / _MINUTE)
    counts: list[dict[str, Any]] = (
        source.groupBy(minute.alias("minute")).agg(F.count("*").alias("rows")).toArrow().to_pylist()
    )
    found: list[Column] = []
    first, rows = None, 0
    for left, entry in reversed(list(enumerate(sorted(counts, key=lambda entry: -entry["minute"])))):
        first = entry["minute"] if first is None else first
        rows += entry["rows"]
        if rows >= rows_wanted or left == 0:
            # A range of the column itself, so that whole files are skipped.
            start, end = _moment(first), _moment(entry["minute"] + 1)
            found.append((F.col(time) >= F.lit(start)) & (F.col(time) < F.lit(end)))
            first, rows = None, 0
    return found


def _moment(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * _MINUTE, UTC)


def floor(since: datetime | None, window_seconds: int) -> datetime | None:
    """The start of the window that contains a moment."""
    if since is None:
        return None
    seconds = int(since.timestamp()) // window_seconds * window_seconds
    return datetime.fromtimestamp(seconds, UTC)


def since_then(rows: DataFrame, time: str, since: datetime | None) -> DataFrame:
    """The rows from `since` on; all without it."""
    return rows if since is None else rows.where(F.col(time) >= F.lit(since))


def iso(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def utc(moment: datetime | None) -> datetime | None:
    """Adds the zone UTC to a moment from Spark."""
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
