"""Searches on the site, and downloads of files, by people."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from . import goals
from .measures import LINES, PEOPLE, Gold, measured
from .query import Where, count, cut
from .rows import Rows
from .selection import Selection

SEARCHES = Gold("gold/searches", 86_400, time="day")
SEARCHED = (PEOPLE, Where("search_term", "is not null"))
# What Google Analytics 4 calls a file download, where no goal says which files are.
EXTENSIONS = (
    "pdf", "xls", "xlsx", "doc", "docx", "txt", "rtf", "csv", "exe", "key", "pps", "ppt", "pptx", "7z", "pkg", "rar",
    "gz", "zip", "avi", "mov", "mp4", "mpe", "mpeg", "wmv", "mid", "midi", "mp3", "wav", "wma",
)  # fmt: skip
_BY = {"term": cut("search_term", 200), "path": cut("path", 200)}
_LINES = replace(LINES, columns=_BY, measures={**LINES.measures, "searches": count(), "downloads": count()})


def searches(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """Columns `term` (its first 200 characters), `searches`, `visitors`; most searches first."""
    return measured(
        rows, selection, _LINES, (SEARCHES,), ["searches", "visitors"],
        by=["term"], silver_where=SEARCHED, order_by=["-searches", "term"], limit=limit,
    )  # fmt: skip


def downloads(
    rows: Rows, selection: Selection, extensions: tuple[str, ...] = EXTENSIONS, limit: int | None = None
) -> pd.DataFrame:
    """Columns `path` (its first 200 characters), `downloads`, `visitors` of files with one of these extensions, in any
    case of letters; most downloads first. Reads silver."""
    where = (PEOPLE, goals.downloads(extensions))
    return measured(
        rows, selection, _LINES, (), ["downloads", "visitors"],
        by=["path"], where=where, order_by=["-downloads", "path"], limit=limit,
    )  # fmt: skip


def extensions(declared: goals.Goals) -> tuple[str, ...]:
    """Those of the goals that are downloads, or the usual ones if there is no such goal."""
    found = (str(each).lstrip(".").lower() for goal in declared.values() for each in goal.get("download", ()))
    return tuple(dict.fromkeys(found)) or EXTENSIONS
