"""A panel: a titled part of a page that refreshes by itself."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from tidemark.figures import comparison, definitions
from tidemark.figures.extents import Extent
from tidemark.figures.numbers import NUMBERS
from tidemark.figures.permitted import ForbiddenError
from tidemark.figures.query import Condition, query
from tidemark.figures.reader import MissingTableError, Reader, ReadError, Version
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.text import plain, shown
from tidemark.figures.zones import floor

from . import clock, data, pulse, who
from .controls import actions
from .filters import Filters, Span

log = logging.getLogger("tidemark.dashboard")

# Seconds that a panel stays as it is although its tables have changed: those about now, and the others.
LIVE = 3.0
CALM = 6.0
# Those whose figures are by hour or by day.
SELDOM = 30.0
# The range moves with the clock, and with it the figures: a panel about now, or of a short range, is drawn again with
# every minute, any other with every fifth.
MINUTE = 60
SHORT = ("15m", "1h")
# Seconds. A page on which nothing runs by itself would not come back after the server was started again.
AGAIN = 600.0
# A panel whose tables are this much older than the page says as of when it is.
OLDER = timedelta(seconds=60)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Look:
    """The input of a panel: the reader, the filters, and this refresh's clock."""

    reader: Reader
    filters: Filters
    now: datetime
    key: str
    title: str = ""
    # A place in the panel's heading for a button.
    tools: DeltaGenerator | None = None
    # Conditions that keep the requests behind the panel.
    requests: tuple[Condition, ...] = ()
    # The tables that the panel shows.
    tables: tuple[str, ...] = ()

    @property
    def rows(self) -> Rows:
        return data.rows_of(self.reader)

    @functools.cached_property
    def extent(self) -> Extent:
        return data.extent(self.reader, self.filters.site)

    def span(self, finest: int = 60) -> Span:
        return self.filters.span(self.now, self.extent, finest)

    def selection(self, finest: int = 60) -> Selection:
        """The selection of the page's figures, in windows of at least `finest` seconds."""
        return self.filters.selection(self.span(finest))

    def earlier(self, selection: Selection) -> Selection | None:
        """The period to compare with, if there is one."""
        return comparison.earlier(selection, self.extent, self.now)

    def end_of(self, span: Span) -> datetime:
        """A moment of the last bin of a chart of the span: now, or the newest data where the range is not about now."""
        if span.end is not None:
            return min(span.end - timedelta(microseconds=1), self.now)
        newest = self.extent.newest
        return newest if self.filters.preset == "all" and newest else self.now

    def start_of(self, span: Span) -> datetime:
        return span.start or floor(self.extent.first or self.now, span.bin_seconds, self.filters.zone)

    def window(self, table: str) -> int:
        """Length of a table's windows, in seconds; a minute where the table does not say."""
        return round(data.contract(self.reader, table).number("window_seconds") or 60)

    def wall(self, times: pd.Series) -> pd.Series:
        return clock.wall(times, self.filters.zone)


class EmptyError(Exception):
    """Ends a panel, or a dialog, that has nothing to draw. It has the arguments of `nothing`, which says so."""


Body = Callable[[Look], None]
# Writes the query of what a panel shows.
Written = Callable[[Look], str]


def panel(
    title: str,
    *tables: str,
    every: float = CALM,
    help: str | None = None,
    requests: tuple[Condition, ...] | None = None,
    figure: definitions.Figure | None = None,
    query: Written | None = None,
    bare: bool = False,
) -> Callable[[Body], Callable[[Reader, Filters], None]]:
    """Makes a function that draws a panel's inside into a panel: `draw(reader, filters)`.

    `tables` are those it needs. A missing, empty or unreadable one shows as one line in its place, and so does an
    EmptyError. With `requests`, a button opens the requests of the page's selection that these conditions keep. With
    `figure`, another one shows its query for DuckDB; so does `query`, which writes it. A `bare` panel has neither
    border nor heading.
    """

    def decorate(body: Body) -> Callable[[Reader, Filters], None]:
        written = functools.partial(sql_of, figure) if figure is not None else query
        key = f"{body.__module__.rsplit('.', 1)[-1]}-{body.__name__}"

        @st.fragment
        @functools.wraps(body)
        def draw(reader: Reader, filters: Filters) -> None:
            actions.apply()
            begun = time.perf_counter()
            with st.container(border=not bare, key=f"panel-{key}", height="stretch", gap="xsmall"):
                look = Look(reader, filters, clock.now(), key, title, tables=tables)
                if not bare:
                    tools = _heading(title, help, look, requests, written)
                    look = replace(look, tools=tools, requests=requests or ())
                seen: dict[str, Version | None] = {}
                try:
                    with data.seeing(seen):
                        _show_incomplete(reader, tables)
                        try:
                            body(look)
                        except EmptyError as empty:
                            nothing(*empty.args)
                    _show_older(look, tables)
                except MissingTableError as error:
                    st.caption(
                        f"No data yet: {plain(str(error))}. A running pipeline makes it: tidemark run."
                    )
                except ForbiddenError as error:
                    st.caption(f"{who.LOCK} {plain(str(error))}. An admin can give you the right.")
                except ReadError as error:
                    st.warning(plain(str(error)), icon=":material/error:")
                except Exception:
                    log.exception("panel %s failed", key)
                    st.error("This panel could not be drawn; the dashboard's log has the reason.")
                turn = MINUTE if every == LIVE or filters.preset in SHORT else 5 * MINUTE
                pulse.follow(reader, key, tables, seen, every, turn)
            log.debug("panel %s took %.3f s", key, time.perf_counter() - begun)

        draw.figure = figure  # type: ignore[attr-defined]
        return draw

    return decorate


def beside(reader: Reader, filters: Filters, *panels: Callable[[Reader, Filters], None]) -> None:
    """Draws panels side by side."""
    for cell, draw in zip(st.columns(len(panels)), panels, strict=True):
        with cell:
            draw(reader, filters)


def metrics(figures: Mapping[str, tuple[str, str | None]]) -> None:
    """Draws figures side by side: the text of each label, and what it means."""
    for cell, (label, (text, help)) in zip(st.columns(len(figures)), figures.items(), strict=True):
        cell.metric(label, text, border=True, help=help, height="stretch")


def meaning(name: str) -> str:
    """The meaning of a number in one sentence."""
    return plain(NUMBERS[name])


def _heading(
    title: str,
    help: str | None,
    look: Look,
    requests: tuple[Condition, ...] | None,
    written: Written | None,
) -> DeltaGenerator:
    """Draws the panel's title and buttons; returns the place for another one."""
    with st.container(horizontal=True, vertical_alignment="center", key=f"heading-{look.key}"):
        st.markdown(f"##### {title}", help=help, width="stretch")
        tools = st.container(horizontal=True, width="content", key=f"tools-{look.key}")
        if written is not None:
            _query(look, written)
        if requests is not None:
            open_to = who.may("analyst")
            st.button(
                "Requests",
                key=f"requests-{look.key}",
                type="tertiary",
                icon=actions.REQUESTS if open_to else who.LOCK,
                help="Show the newest requests behind this panel, and their lines as received."
                if open_to
                else actions.LOCKED,
                on_click=_open,
                args=(look, requests),
                disabled=not open_to,
            )
    return tools


def sql_of(figure: definitions.Figure, look: Look) -> str:
    """The query of a figure of the page's selection."""
    return definitions.sql(figure, look.selection(), look.reader.root)


def query_button(look: Look, figure: definitions.Figure) -> None:
    """A button that opens the query of a figure."""
    _query(look, functools.partial(sql_of, figure))


def _query(look: Look, written: Written) -> None:
    """A button that opens the figure's query, which is only written then; not for a share."""
    if who.asking().shared is not None:
        return
    view = actions.Whole(f"{look.title}: SQL", functools.partial(_sql, current=look, written=written))
    st.button(
        "SQL",
        type="tertiary",
        help="Show the query of these figures for DuckDB.",
        key=f"sql-{look.key}",
        on_click=actions.open_view,
        args=(view,),
    )


def _sql(look: Look, *, current: Look, written: Written) -> None:
    try:
        text = written(current)
    except ReadError as error:
        text = f"-- {error}"
    source = "Counted from silver" if "silver" in text else "As recorded"
    st.caption(f"{source}, with the chosen site, range and filters:")
    st.code(f"INSTALL delta; LOAD delta;\n\n{text}", language="sql", wrap_lines=True)


def _open(look: Look, requests: tuple[Condition, ...]) -> None:
    """Only a click needs the selection, whose extent an unreadable table would hide."""
    actions.open_view(actions.Requests(look.selection(), requests))


def _show_incomplete(reader: Reader, tables: tuple[str, ...]) -> None:
    missing = data.backfills(reader)
    for table in tables:
        if table in missing:
            name = plain(table.replace("/", "."))
            text = f"{name} is incomplete: backfill of its history, {missing[table]}."
            st.caption(f":material/history: {text}")


NOTHING = "Nothing in this range."
NOTHING_YET = "Nothing has been counted for this yet."


def nothing(message: str = NOTHING, look: Look | None = None) -> None:
    """A message in place of an empty chart or table. With a `look`, it says what to change: the filters, if
    there are any, or else the range; but not while the panel's tables have no rows. Raises ReadError."""
    if look is not None and look.tables and not any(_has_rows(look, table) for table in look.tables):
        message = NOTHING_YET if message == NOTHING else message
    elif look is not None and look.filters.conditions:
        filters = shown(" and ".join(map(str, look.filters.conditions)))
        if message == NOTHING:
            message = f"Nothing in this range passes {filters}. Remove a filter at the top of the page."
        else:
            message = f"{message} Only what passes {filters} is counted here; remove a filter at the top of the page."
    elif look is not None and message == NOTHING:
        message += " Choose a longer one at the top of the page."
    st.text(message)


def some(rows: pd.DataFrame, message: str = NOTHING, look: Look | None = None) -> pd.DataFrame:
    """The rows. Raises EmptyError where there are none."""
    if rows.empty:
        raise EmptyError(message, look)
    return rows


def _has_rows(look: Look, table: str) -> bool:
    if look.reader.version(table) is None:
        return False
    columns = list(data.contract(look.reader, table).columns)[:1]
    return bool(len(look.rows(query(table, columns, limit=1))))


def _show_older(look: Look, tables: tuple[str, ...]) -> None:
    """As of when the panel is, if its flow is behind the one that the page speaks of."""
    flows = data.flows(look.reader)
    late = [at for flow, at in flows.items() if tables and flow != "requests" and not set(tables) <= data.NOW]
    page = flows.get("requests")
    if page is not None and late and max(late) < page - OLDER:
        zone = look.filters.zone
        st.caption(plain(f"As of {clock.stamp(max(late), zone, look.now)} {zone}"))


@st.fragment(run_every=AGAIN)
def freshness(reader: Reader, filters: Filters) -> None:
    """As of when the page is and how far behind, once for all its panels."""
    look = Look(reader, filters, clock.now(), "freshness")
    zone = filters.zone
    parts: list[tuple[str, float | None, str]] = []
    seen: dict[str, Version | None] = {}
    try:
        with data.seeing(seen):
            event = look.extent.newest
        versions = [v for v in map(reader.version, data.FIRST) if v is not None]
    except ReadError:
        return  # the panels say so
    if versions:
        newest = max(v.committed_at for v in versions)
        parts.append((f"As of {clock.stamp(newest, zone, look.now)} {zone}, ", newest.timestamp(), " ago"))
    if event is not None:
        if look.now - event < DAY:
            parts.append(("newest line ", event.timestamp(), " behind"))
        else:
            parts.append((f"newest line {clock.stamp(event, zone, look.now)}", None, ""))
    pulse.line("ages", parts)
    pulse.follow(reader, look.key, data.FIRST, seen, LIVE, 5 * MINUTE)
