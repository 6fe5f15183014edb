"""Searches on the site, and downloads of files, by people."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pandas as pd

from tidemark.figures import goals
from tidemark.figures.measures import LINES, Base, Gold, measured, split
from tidemark.figures.query import Where, count, prefix
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import PEOPLE
from tidemark.figures.zones import midnight

SEARCHES = Gold("gold/searches", 86_400, time="day")
SEARCHED = (PEOPLE, Where("search_term", "is not null"))
# What Google Analytics 4 calls a file download, where no goal says which files are.
EXTENSIONS = (
    "pdf", "xls", "xlsx", "doc", "docx", "txt", "rtf", "csv", "exe", "key", "pps", "ppt", "pptx", "7z", "pkg", "rar",
    "gz", "zip", "avi", "mov", "mp4", "mpe", "mpeg", "wmv", "mid", "midi", "mp3", "wav", "wma",
)  # fmt: skip
_BY = {"term": prefix("search_term", 200), "path": prefix("path", 200)}
_MEASURES = {**LINES.measures, "searches": count(), "downloads": count()}
_LINES = replace(LINES, columns=_BY, measures=_MEASURES, few=True)
_SEARCHES = _LINES.of(SEARCHES, only=SEARCHED)


def searches(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """Columns `term` (its first 200 characters), `searches`, `visitors`; most searches first."""
    return _counted(rows, selection, _SEARCHES, "term", ["searches", "visitors"], limit)


def searches_only(rows: Rows, selection: Selection) -> pd.Series[int]:
    """The searches by term. They add up, so gold answers the whole days of the range."""
    parts = split(rows, SEARCHES, selection)
    counts = [_counted(rows, part, _SEARCHES, "term", ["searches"]) for part in parts]
    return pd.concat(counts).groupby("term")["searches"].sum()


def downloads(
    rows: Rows, selection: Selection, extensions: tuple[str, ...] = EXTENSIONS, limit: int | None = None
) -> pd.DataFrame:
    """Columns `path` (its first 200 characters), `downloads`, `visitors` of files with one of these extensions, in any
    case of letters; most downloads first. Reads silver."""
    files = _LINES.of(only=(PEOPLE, goals.downloads(extensions)))
    return _counted(rows, selection, files, "path", ["downloads", "visitors"], limit)


def downloads_only(rows: Rows, selection: Selection, extensions: tuple[str, ...]) -> pd.Series[int]:
    """The downloads by path."""
    # Counted as `downloads` does, so that days which it has counted are not read again.
    return downloads(rows, selection, extensions).set_index("path")["downloads"]


def whole_days(selection: Selection) -> Selection:
    """The selection from the beginning of its first day (UTC), and to the end of its last, if it has two or more: gold
    counts searches by day."""
    start, end = selection.start, selection.end
    if start is None or (end or datetime.now(UTC)) - start < timedelta(days=2):
        return selection
    first = midnight(start)
    if end is None:
        return replace(selection, start=first)
    last = midnight(end)
    return selection.shifted(first, last if last == end else last + timedelta(days=1))


def _counted(
    rows: Rows, selection: Selection, base: Base, by: str, names: list[str], limit: int | None = None
) -> pd.DataFrame:
    return measured(rows, selection, base, names, by=[by], order_by=[f"-{names[0]}", by], limit=limit)


def extensions(declared: goals.Goals) -> tuple[str, ...]:
    """Those of the goals that are downloads, or the usual ones if there is no such goal."""
    declared_extensions = (each.lstrip(".").lower() for goal in declared.values() for each in goal.download)
    return tuple(dict.fromkeys(declared_extensions)) or EXTENSIONS
