"""Event-time windows as plain columns."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def tumbling_start(time: Column, seconds: int) -> Column:
    """Start of the epoch-aligned tumbling window of `seconds` that contains `time` (timestamp)."""
    micros = F.unix_micros(time)
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(seconds * 1_000_000)))


def window_end(start: Column, seconds: int) -> Column:
    """Exclusive end of a tumbling window."""
    return F.timestamp_seconds(F.unix_timestamp(start) + seconds)
