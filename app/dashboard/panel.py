"""A panel: a titled part of a page that refreshes by itself and says as of when it is."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pandas as pd
import streamlit as st

from . import clock, data
from .figures.reader import MissingTableError, Reader, ReadError
from .filters import Filters, Span
from .text import duration, plain

log = logging.getLogger("tidemark.dashboard")

# How often panels look for a new table version: those about now, and the others.
LIVE = 2.0
CALM = 6.0


@dataclass(frozen=True)
class Look:
    """What a panel draws from: the reader, the filters, and this refresh's clock."""

    reader: Reader
    filters: Filters
    now: datetime
    key: str

    def span(self, finest: int = 60) -> Span:
        return self.filters.span(self.now, data.extent(self.reader, self.filters.site), finest)

    def end_of(self, span: Span) -> datetime:
        """Where a chart of the span ends: now, or the newest data where the range is not about now."""
        if span.end is not None:
            return min(span.end, self.now)
        newest = data.extent(self.reader, self.filters.site).newest
        return newest if self.filters.preset == "all" and newest else self.now

    def start_of(self, span: Span) -> datetime:
        first = data.extent(self.reader, self.filters.site).first
        return span.start or clock.floor(first or self.now, span.bin_seconds)

    def window(self, table: str) -> int:
        """Length of a table's windows, in seconds; a minute where the table does not say."""
        return round(data.contract(self.reader, table).number("window_seconds") or 60)

    def wall(self, times: pd.Series) -> pd.Series:
        return clock.wall(times, self.filters.zone)


Body = Callable[[Look], None]


def panel(
    title: str, *tables: str, every: float = CALM, help: str | None = None
) -> Callable[[Body], Callable]:
    """Makes a function that draws a panel's inside into a panel: `draw(reader, filters)`.

    `tables` are those it needs. A missing, empty or unreadable one shows as one line in its place.
    """

    def decorate(body: Body) -> Callable[[Reader, Filters], None]:
        key = f"{body.__module__.rsplit('.', 1)[-1]}-{body.__name__}"

        @st.fragment(run_every=every)
        @functools.wraps(body)
        def draw(reader: Reader, filters: Filters) -> None:
            begun = time.perf_counter()
            with st.container(border=True, key=f"panel-{key}", height="stretch", gap="xsmall"):
                st.markdown(f"##### {title}", help=help)
                look = Look(reader, filters, clock.now(), key)
                try:
                    _say_incomplete(reader, tables)
                    body(look)
                    st.caption(_as_of(look, tables))
                except MissingTableError as error:
                    st.caption(f"No data yet: {plain(str(error))}.")
                except ReadError as error:
                    st.warning(plain(str(error)), icon=":material/error:")
                except Exception:
                    log.exception("panel %s failed", key)
                    st.error("This panel could not be drawn; the dashboard's log has the reason.")
            log.debug("panel %s took %.3f s", key, time.perf_counter() - begun)

        return draw

    return decorate


def _say_incomplete(reader: Reader, tables: tuple[str, ...]) -> None:
    found = data.backfills(reader)
    for table in tables:
        if table in found:
            name = plain(table.replace("/", "."))
            text = f"{name} is incomplete: backfill of its history, {found[table]}."
            st.caption(f":material/history: {text}")


NOTHING = "Nothing in this range."


def nothing(message: str = NOTHING) -> None:
    """What a panel shows in place of an empty chart or table."""
    st.text(message)


def _as_of(look: Look, tables: tuple[str, ...]) -> str:
    versions = [v for v in map(look.reader.version, tables) if v is not None]
    zone = look.filters.zone
    parts = []
    if versions:
        newest = max(v.committed_at for v in versions)
        age = max(look.now - newest, timedelta(0)).total_seconds()
        parts.append(f"As of {clock.stamp(newest, zone, look.now)} {zone}, {duration(round(age))} ago")
    event = data.extent(look.reader, look.filters.site).newest
    if event is not None:
        behind = max(look.now - event, timedelta(0)).total_seconds()
        if behind < 86_400:
            parts.append(f"newest line {duration(round(behind))} behind")
        else:
            parts.append(f"newest line {clock.stamp(event, zone, look.now)}")
    return plain(" · ".join(parts)).replace("\\·", "·")
