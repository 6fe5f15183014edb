"""The main figures of a selection, their change, and what changed most."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

import pandas as pd

from tidemark.figures import comparison, sessions
from tidemark.figures.comparison import Change
from tidemark.figures.extents import Extent
from tidemark.figures.measures import AUDIENCE, COUNTRIES, LINES, PAGES, SESSIONS, SOURCES, TRAFFIC, measured
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

SUMS = ("requests", "pageviews", "bytes", "bot_requests")


@dataclass(frozen=True)
class Overview:
    """`bounce_rate` (0 to 1) and `duration` (median, seconds) are None where there are no sessions."""

    requests: int
    pageviews: int
    visitors: int
    sessions: int
    bounce_rate: float | None
    duration: float | None


def overview(rows: Rows, selection: Selection) -> Overview:
    names = ["requests", "pageviews", "visitors"]
    lines = measured(rows, selection, LINES, (TRAFFIC, AUDIENCE), names).iloc[0]
    found = sessions.summary(rows, selection)
    requests, pageviews, visitors = (int(lines[name]) for name in names)
    return Overview(requests, pageviews, visitors, found.sessions, found.bounce_rate, found.duration)


def changes(rows: Rows, selection: Selection, extent: Extent, clock: datetime) -> dict[str, Change]:
    """Each figure of the overview with the same of the period that the selection is compared with, if there is one."""
    now = overview(rows, selection)
    period = comparison.earlier(selection, extent, clock)
    before = None if period is None else overview(rows, period)
    names = [f.name for f in fields(Overview)]
    return {n: Change(getattr(now, n), None if before is None else getattr(before, n)) for n in names}


def over_time(rows: Rows, selection: Selection, bin_seconds: int, *, visitors: bool = True) -> pd.DataFrame:
    """Columns `bin` (UTC), `requests`, `pageviews`, `bytes`, `bot_requests`, and `visitors`, which take longest; bins
    without lines are missing."""
    golds = (TRAFFIC,) if not selection.filters else (AUDIENCE,)
    names = ["requests", "pageviews", "bytes", *(["visitors"] if visitors else [])]
    names += ["bot_requests"] if TRAFFIC in golds else []
    return measured(rows, selection, LINES, golds, names, bin_seconds=bin_seconds, order_by=["bin"])


def figure_over_time(rows: Rows, selection: Selection, bin_seconds: int, name: str) -> pd.DataFrame:
    """Columns `bin` (UTC) and the field `name` of the overview; bins without lines are missing."""
    if name == "duration":
        return sessions.duration_over_time(rows, selection, bin_seconds)
    if name in ("sessions", "bounce_rate"):
        found = sessions.over_time(rows, selection, bin_seconds)
        found["bounce_rate"] = found["bounces"] / found["sessions"]
    else:
        found = over_time(rows, selection, bin_seconds, visitors=name == "visitors")
    return found[["bin", name]]


# Values that can move: a heading, the column, its measure, where it is counted.
MOVES = (
    ("page", "path", "pageviews", LINES, (PAGES,)),
    ("country", "country", "requests", LINES, (COUNTRIES, AUDIENCE)),
    ("device", "device", "requests", LINES, (AUDIENCE,)),
    ("source", "source", "sessions", SESSIONS, (SOURCES,)),
)


def moved(rows: Rows, selection: Selection, period: Selection, limit: int = 10) -> pd.DataFrame:
    """The values whose counts differ most between the selection and an earlier period.

    Columns `what` (page, country, device, source), `value`, `measure`, `now`, `before`; the largest difference first.
    """
    parts = []
    for what, column, name, base, golds in MOVES:
        both = [
            measured(rows, each, base, golds, [name], by=[column]).set_index(column)[name]
            for each in (selection, period)
        ]
        pair = pd.concat(both, axis=1, keys=["now", "before"]).fillna(0).astype("int64")
        pair = pair.rename_axis("value").reset_index()
        parts.append(pair.assign(what=what, measure=name))
    found = pd.concat(parts, ignore_index=True)
    found["by"] = (found["now"] - found["before"]).abs()
    found = found[found["by"] > 0].sort_values(["by", "what", "value"], ascending=[False, True, True])
    return found[["what", "value", "measure", "now", "before"]].head(limit).reset_index(drop=True)
