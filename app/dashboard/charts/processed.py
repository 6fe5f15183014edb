"""Charts by the time at which lines were processed, in bins of the page's zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pandas as pd

from tidemark.figures import timespec
from tidemark.figures.bins import Bins, every_bin, in_utc
from tidemark.figures.query import Condition, Expression, least, query
from tidemark.figures.zones import floor, midnight, shifts

from ..filters import BINS, Span
from ..panel import Look
from . import basic
from .timechart import over_time

# Bins of a pipeline that has only run for minutes, and how many a chart has at most.
STEPS = (5, 15, *BINS)
MOST_BINS = 60


def binned(
    look: Look,
    table: str,
    time: str,
    columns: Mapping[str, str | Expression],
    where: Sequence[Condition] = (),
    *,
    by: Sequence[str] = (),
) -> tuple[Span, pd.DataFrame]:
    """The `columns` of a table by `bin` (UTC) of its column `time`, and by the columns `by`, with the span of the bins.

    Processing goes on until now, whatever the times in the lines. The span begins with the first time in the page's
    range, so that a pipeline that has just started has more than one bin.
    """
    chosen, zone = look.span(), look.filters.zone
    kept = (*where, *chosen.where(time))
    first = look.rows(query(table, {"first": least(time)}, kept))["first"].iloc[0]
    if pd.isna(first):
        return chosen, pd.DataFrame()
    end = look.now if chosen.end is None else min(chosen.end, look.now)
    reach = (end - first).total_seconds()
    seconds = next((step for step in STEPS if reach / step <= MOST_BINS), STEPS[-1])
    if chosen.start is not None:
        seconds = min(seconds, chosen.bin_seconds)
    span = Span(floor(first.to_pydatetime(), seconds, zone), end, seconds)
    assert span.start is not None
    bins = Bins(seconds, zone, shifts(zone, seconds, span.start, midnight(end) + timedelta(days=2)))
    rows = look.rows(query(table, {"bin": bins.of(time)} | dict(columns), kept, group_by=["bin", *by]))
    return span, in_utc(rows, bins)


def bars(
    look: Look,
    span: Span,
    rows: pd.DataFrame,
    names: Mapping[str, str],
    unit: str,
    height: int = timespec.HEIGHT,
) -> None:
    """Draws columns returned by `binned`, under their `names`, as stacked bars."""
    assert span.start is not None
    assert span.end is not None
    zone = look.filters.zone
    full = every_bin(rows, span.start, span.end, span.bin_seconds, list(names), zone=zone)
    long = basic.longer(full, dict(names))
    long["bin"] = look.wall(long["bin"])
    over_time(
        look,
        long,
        unit=unit,
        series=list(names.values()),
        kind="bar",
        height=height,
        bin_seconds=span.bin_seconds,
    )
