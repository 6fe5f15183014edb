"""Event-time windows as plain columns."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def tumbling_start(time: Column, seconds: int) -> Column:
    """Start of the epoch-aligned tumbling window of `seconds` that holds `time` (timestamp)."""
    return F.timestamp_seconds(F.floor(F.unix_timestamp(time) / seconds) * seconds)


def window_end(start: Column, seconds: int) -> Column:
    """Exclusive end of a tumbling window."""
    return F.timestamp_seconds(F.unix_timestamp(start) + seconds)
