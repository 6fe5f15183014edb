"""Changes against the earlier period: in figures, lists and charts over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import streamlit as st

from tidemark.figures import counted
from tidemark.figures.comparison import Change
from tidemark.figures.counted import Counted
from tidemark.figures.selection import Selection
from tidemark.figures.zones import to_utc

from .. import clock
from ..filters import HOUR, Span
from ..panel import Look
from .grid import Written, change_column

# Smaller changes, as a share, are shown as none.
FLAT = 0.0005
NONE = "No comparison: the earlier period begins before the first line."


def metric(
    label: str,
    change: Change,
    value: str,
    better: bool | None,
    help: str | None = None,
    *,
    share: bool = False,
    counts: bool = True,
) -> None:
    """A figure with its change: an arrow, "new", or nothing; of a `share` in percentage points. `better`: whether more
    is (None: neither). Only what `counts` can be new: of a median that was 0, the change is the value."""
    is_new = change.is_new and counts
    text = change.points if share else f"+{value}" if change.is_new and not counts else str(change)
    color: Literal["off", "normal", "inverse"] = (
        "off" if better is None or is_new else "normal" if better else "inverse"
    )
    flat = change.ratio is not None and abs(change.ratio) < FLAT
    st.metric(
        label,
        value,
        None if not text or flat else text,
        delta_color=color,
        delta_arrow="off" if is_new else "auto",
        border=True,
        help=help,
        height="stretch",
    )


def caption_period(look: Look, selection: Selection) -> None:
    """Shows the period that a panel's figures are compared with, or why a requested comparison is impossible."""
    whole = whole_hours(look, selection)
    if words := period_text(look, whole, "Compared" if whole == selection else "Full hours compared"):
        st.caption(words)


def period_text(look: Look, selection: Selection, what: str = "Compared") -> str:
    """The comparison period as a sentence, or why a requested one is impossible."""
    if not selection.comparison or selection.start is None:
        return ""
    period = words(look, selection)
    return f"{what} with {period}." if period else NONE


def words(look: Look, selection: Selection) -> str:
    """The period compared with; empty where there is none."""
    period = look.earlier(selection)
    return "" if period is None else period_words(look, period)


def period_words(look: Look, period: Selection) -> str:
    """A period from its first to its last moment."""
    if period.start is None or period.end is None:
        return ""
    zone = look.filters.zone
    start, end = (f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M}" for at in (period.start, period.end))
    return f"{start} to {end} ({zone})"


def whole_hours(look: Look, selection: Selection) -> Selection:
    """The selection until the last full hour, if it reaches now, so that tables by the hour answer."""
    if selection.start is None or selection.end is not None or not selection.aligned(HOUR):
        return selection
    end = clock.floor(min(look.extent.newest or look.now, look.now), HOUR)
    return selection.shifted(selection.start, end) if end > selection.start else selection


def figures(look: Look, selection: Selection, figure: Callable[[Selection], Any]) -> tuple[Any, Any, Any]:
    """A figure of the selection, the same of its full hours where it reaches now, and that of the earlier period: None
    where there is none to compare with."""
    whole = whole_hours(look, selection)
    period = look.earlier(whole)
    shown = figure(selection)
    if period is None:
        return shown, None, None
    return shown, shown if whole == selection else figure(whole), figure(period)


# A heading, the figure's name, its text, whether more is better (None: neither), and what it means.
Tile = tuple[str, str, Callable[[Any], str], bool | None, str | None]


def tiles(
    look: Look,
    selection: Selection,
    figure: Callable[[Selection], Mapping[str, float | None]],
    shown: Sequence[Tile],
    place: Any = st,
    also: Callable[[str], None] = lambda name: None,
) -> Mapping[str, float | None]:
    """Draws figures side by side in a place, each with its change and what `also` draws for its name, and says the
    period; returns the figures."""
    current: Mapping[str, float | None]
    current, now, before = figures(look, selection, figure)
    for cell, (label, name, text, better, help) in zip(place.columns(len(shown)), shown, strict=True):
        with cell:
            change = Change(now and now[name], before and before[name])
            metric(label, change, text(current[name]), better, help)
            also(name)
    caption_period(look, selection)
    return current


def of_rows(look: Look, rows: pd.DataFrame, selection: Selection, what: Counted) -> list[Change]:
    """The change of each row of a list, of full hours where the range reaches now."""
    whole = whole_hours(look, selection)
    return counted.changes(look.rows, what, rows, whole, look.earlier(whole), known=whole == selection)


def help_of(look: Look, selection: Selection) -> str:
    """The help beside a list's changes: the period that they are against."""
    whole = whole_hours(look, selection)
    return f"Against {words(look, whole)}" + ("." if whole == selection else ", of full hours only.")


def column(look: Look, selection: Selection) -> Written:
    """The column `change` of a table."""
    return change_column(help=help_of(look, selection))


def ratios(changes: Sequence[Change]) -> np.ndarray:
    """Cells of such a column, NaN where there is none. A column without any is not shown."""
    return np.array([change.sorted_by for change in changes], np.float64)


def over_time(
    look: Look, selection: Selection, span: Span, figure: Callable[[Selection], pd.DataFrame]
) -> pd.DataFrame | None:
    """A figure by `bin` of the earlier period, moved to the range's times: by whole bins, so that bins lie on bins."""
    period = look.earlier(selection)
    if period is None or period.start is None or period.end is None or selection.start is None:
        return None
    back = -(-(selection.start - period.start) // timedelta(seconds=span.bin_seconds)) * span.bin_seconds
    moved, zone = timedelta(seconds=back), look.filters.zone
    # To the full minute, as the figures, so that tables by the minute answer, and the same for every viewer.
    end = selection.end or clock.floor(look.end_of(span), 60) + timedelta(minutes=1)
    until = end - moved
    if selection.unit is not None and selection.end is not None:  # the unit before may be shorter
        until = min(until, period.end)
    earlier_rows = figure(period.shifted(selection.start - moved, until))
    # Moved on the zone's clocks, which may have changed between the two.
    return earlier_rows.assign(bin=to_utc(look.wall(earlier_rows["bin"]) + moved, zone))
