"""Notes in charts over time: vertical marks, and words for the alternative text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pandas as pd

from tidemark.figures import notes
from tidemark.figures.reader import ReadError
from tidemark.figures.text import clipped, shown
from tidemark.figures.zones import floor

from .. import clock
from ..panel import Look

# Characters of a note beside a chart, and notes that are written out for one mark or one chart.
NOTE_SHOWN, MOST_NOTES = 200, 5
MARKS = ["bin", "time", "when", "text"]


def note_marks(
    look: Look,
    zone: str,
    bins: pd.Series,
    bin_seconds: int,
    within: tuple[datetime, datetime] | None = None,
) -> pd.DataFrame:
    """The notes of a chart's site `within` two times, by default during its `bins` (wall-clock): columns `bin`, `time`
    (wall-clock), `when` and `text`. Notes of the same bin are one mark, at the time of the first."""
    start, end = within or (None, None)
    try:
        rows = notes.notes(look.rows, look.filters.site, start, end)
    except ReadError:  # a chart is worth showing without them; the panel of notes says so
        return pd.DataFrame(columns=MARKS)
    starts = [floor(at, bin_seconds, zone) for at in rows["time"]]
    rows["bin"] = clock.wall(pd.Series(starts, rows.index, rows["time"].dtype), zone)
    rows["time"] = clock.wall(rows["time"], zone)
    if within is None:
        last = bins.max() + pd.Timedelta(seconds=bin_seconds)
        rows = rows[rows["time"].between(bins.min(), last, inclusive="left")]
    marks = [
        {
            "bin": start,
            "time": of["time"].iloc[0],
            "when": of["time"].iloc[0].strftime("%Y-%m-%d %H:%M"),
            "text": _listed([_with_site(*row) for row in of[["site", "text"]].itertuples(index=False)]),
        }
        for start, of in rows.groupby("bin")
    ]
    return pd.DataFrame(marks, columns=MARKS)


def note_words(marks: pd.DataFrame) -> str:
    """The notes of a chart as the end of its alternative text."""
    if marks.empty:
        return ""
    texts = [f"{when} {text}" for when, text in marks[["when", "text"]].itertuples(index=False)]
    return f" Notes: {_listed(texts)}."


def _with_site(site: str, text: str) -> str:
    return clipped(shown(f"{site}: {text}" if site else text), NOTE_SHOWN)


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - MOST_NOTES
    return "; ".join([*texts[:MOST_NOTES], *([f"and {more:,} more"] if more > 0 else [])])
