"""Times in the chosen zone, with its label."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pandas as pd


def now() -> datetime:
    return datetime.now(UTC)


def known_zone(name: str | None) -> str | None:
    """The IANA name if this machine knows it; a browser may report one that it does not."""
    if not name:
        return None
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    return name


def wall(times: pd.Series, zone: str) -> pd.Series:
    """Aware times as naive wall-clock times of a zone, which tables and charts show as they are."""
    return pd.to_datetime(times, utc=True).dt.tz_convert(zone).dt.tz_localize(None)


def stamp(moment: datetime, zone: str, reference: datetime | None = None) -> str:
    """A moment as text: only the time on the reference's day, otherwise with the date."""
    local = moment.astimezone(ZoneInfo(zone))
    if reference is not None and local.date() == reference.astimezone(ZoneInfo(zone)).date():
        return local.strftime("%H:%M:%S")
    return local.strftime("%Y-%m-%d %H:%M:%S")


def floor(moment: datetime, seconds: int) -> datetime:
    """The epoch-aligned multiple of `seconds` at or before a moment."""
    whole = int(moment.timestamp()) // seconds * seconds
    return datetime.fromtimestamp(whole, tz=UTC)
