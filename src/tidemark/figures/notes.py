"""Notes: what happened at a time, by hand or noted by Tidemark about itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from tidemark.figures.query import query
from tidemark.figures.rows import Rows, if_any

if TYPE_CHECKING:
    import pandas as pd

TABLE = "quality/notes"
MOST_CHARACTERS = 1000
COLUMNS = ("note", "time", "site", "text", "cause")


class About(StrEnum):
    """Subjects of Tidemark's own notes. A name follows those of a goal, tables, a site and a day."""

    GOAL = "goal"
    TABLES = "tables"
    SITES = "sites"
    PRIVACY = "privacy"
    RULES = "rules"
    LINES = "lines"
    DAY = "day"
    PIPELINE = "pipeline"
    SITE = "site"
    VISITOR = "visitor"


class State(StrEnum):
    """States of notes about goals, and of those about settings."""

    COUNTING = "counting"
    COUNTED = "counted"
    REMOVED = "removed"
    WAITING = "waiting"
    NOT_APPLIED = "not applied"
    APPLIED = "applied"


def notes(
    rows: Rows,
    site: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    columns: Sequence[str] = COLUMNS,
) -> pd.DataFrame:
    """The `columns`, by time: the notes of a site (None: of every site) and of all sites, from `start` until
    before `end`. The table is small, so one read of all of it serves every chart."""
    import pandas as pd

    listed = if_any(rows, query(TABLE, columns, order_by=["time", "note"]), {"time": "datetime64[us, UTC]"})
    kept = pd.Series(data=True, index=listed.index)
    if site is not None:
        kept &= listed["site"].isin([site, ""])
    if start is not None:
        kept &= listed["time"] >= start
    if end is not None:
        kept &= listed["time"] < end
    return listed[kept].reset_index(drop=True)
