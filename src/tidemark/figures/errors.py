"""Statuses over time, failed requests by path, broken links, and when errors happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from tidemark.figures import conditions, daily, silver
from tidemark.figures.counted import Counted
from tidemark.figures.extents import Extent
from tidemark.figures.measures import LINES, RESPONSES, TRAFFIC, Gold, measured
from tidemark.figures.query import Columns, Where, count, filled, prefix, query, time_bin
from tidemark.figures.rows import Rows, ordered
from tidemark.figures.selection import Selection
from tidemark.figures.silver import MOST_CHARACTERS

ERRORS = Gold("gold/errors", 3600, frozenset({"status"}))
FAILED = Where("status", ">=", 400)
_LINES = replace(LINES.of(ERRORS), columns={"path": prefix("path", MOST_CHARACTERS)})
CLASSES = ("status_2xx", "status_3xx", "status_4xx", "status_5xx")
QUARTER = 900
COUNTED = Counted("requests", ("path", "status"), _LINES, (FAILED,))
_TRAFFIC = LINES.of(TRAFFIC)


def statuses(rows: Rows, selection: Selection, bin_seconds: int | None = None) -> pd.DataFrame:
    """Columns `bin` (UTC, with `bin_seconds`), `status`, `requests`, `bytes`; most requests first, or by time."""
    base, names = LINES.of(RESPONSES), ["requests", "bytes"]
    order = ["bin", "status"] if bin_seconds else ["-requests", "status"]
    return measured(rows, selection, base, names, by=["status"], bin_seconds=bin_seconds, order_by=order)


def classes_over_time(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `requests`, and `status_2xx` to `status_5xx`."""
    names = ["requests", *CLASSES]
    return measured(rows, selection, _TRAFFIC, names, bin_seconds=bin_seconds, order_by=["bin"])


def errors(
    rows: Rows, selection: Selection, statuses: tuple[int, int] = (400, 599), limit: int | None = None
) -> pd.DataFrame:
    """Columns `path` (its first 200 characters), `status`, `requests`, `visitors` (people) and `newest_event_time`, of
    requests whose status lies between the two; most requests first."""
    names = ["requests", "visitors", "newest_event_time"]
    where = (Where("status", ">=", max(statuses[0], 400)), Where("status", "<=", statuses[1]))
    by = ["path", "status"]
    return measured(
        rows, selection, _LINES, names, by=by, where=where, order_by=["-requests", *by], limit=limit
    )


def referrers(rows: Rows, selection: Selection, paths: Sequence[str] | None = None) -> pd.DataFrame:
    """Where requests of these missing paths (404), or of all, came from: columns `path` (its first 200 characters),
    `referrer`, `own` (whether it is a page of the site), `requests`; for each path own pages first, then most
    requests."""
    path = prefix("path", MOST_CHARACTERS)
    listed = () if paths is None else (Where(path, "in", tuple(paths)),)
    where = (*conditions.of_lines(selection), Where("status", "=", 404), *listed)
    columns: Columns = {
        "path": path,
        "referrer": "referrer",
        "channel": filled("channel"),
        "requests": count(),
    }
    # An engine would ask first whether there is a referrer, and so read it of every line.
    wanted = query(silver.REQUESTS, columns, where, group_by=["path", "referrer", "channel"])
    counts = daily.counted(rows, wanted, "event_time")
    counts = counts.dropna(subset=["referrer"])
    counts["own"] = counts.pop("channel") == "internal"
    counts = counts.groupby(["path", "referrer", "own"], as_index=False)[["requests"]].sum()
    return ordered(counts, ["path", "-own", "-requests", "referrer"])[["path", "referrer", "own", "requests"]]


def by_hour_and_weekday(rows: Rows, selection: Selection) -> pd.DataFrame:
    """Columns `weekday` (0 is Monday) and `hour`, of the selection's zone, `requests`, `status_4xx`, `status_5xx`."""
    names = ["requests", "status_4xx", "status_5xx"]
    # Every zone differs from UTC by a multiple of a quarter of an hour.
    counts = measured(rows, selection, _TRAFFIC, names, bin_seconds=QUARTER)
    local = pd.to_datetime(counts.pop("bin"), utc=True).dt.tz_convert(selection.zone)
    counts.insert(0, "weekday", local.dt.weekday)
    counts.insert(1, "hour", local.dt.hour)
    return counts.groupby(["weekday", "hour"], as_index=False)[names].sum()


def at_hour(selection: Selection, extent: Extent, weekday: int, hour: int) -> Where:
    """The condition that keeps the requests of an hour of a weekday, in the selection's zone; `extent` is that of the
    selection's site."""
    first, last = selection.start or extent.first, selection.end or extent.newest
    if first is None or last is None:
        return Where("event_time", "is null")
    quarters = pd.date_range(pd.Timestamp(first).floor("15min"), pd.Timestamp(last), freq="15min", tz="UTC")
    local = quarters.tz_convert(selection.zone)
    kept = quarters[(local.weekday == weekday) & (local.hour == hour)]
    return Where(time_bin("event_time", QUARTER), "in", tuple(kept.to_pydatetime()))
