"""Pages: pageviews and visitors, and how often sessions enter and leave there."""

from __future__ import annotations

import pandas as pd

from tidemark.figures import sessions
from tidemark.figures.counted import Counted
from tidemark.figures.measures import LINES, PAGES, measured
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import VIEW

_VIEWS = LINES.of(PAGES, only=(VIEW,))
COUNTED = Counted("pageviews", ("path",), _VIEWS)


def pages(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """Columns `path`, `pageviews`, `visitors`; most pageviews first."""
    names, order = ["pageviews", "visitors"], ["-pageviews", "path"]
    return measured(rows, selection, _VIEWS, names, by=["path"], order_by=order, limit=limit)


def with_sessions(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """The pages, also with `entries`, `exits`, and `bounces` of the sessions that entered there."""
    listed = pages(rows, selection, limit)
    entry, leave = sessions.by_ends(rows, selection)
    entry = entry.rename(columns={"entry_page": "path", "sessions": "entries"})
    leave = leave.rename(columns={"exit_page": "path", "sessions": "exits"})
    listed = listed.merge(entry, on="path", how="left").merge(leave[["path", "exits"]], on="path", how="left")
    counts = ["entries", "exits", "bounces"]
    return listed.assign(**{name: listed[name].fillna(0).astype("int64") for name in counts})
