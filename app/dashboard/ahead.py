"""Prepares the pages before somebody opens one: loads their libraries, reads the first page's figures, and unites the
visitors of past days and counts their lines. For a month of twenty million requests the latter takes some seconds, and
days that are over hardly change."""

from __future__ import annotations

import importlib
import pkgutil
import threading
import time as clocks
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta

import streamlit as st

from tidemark.figures import bots, errors, goals, overview, searches, suspected
from tidemark.figures.extents import extents, of_site
from tidemark.figures.measures import AUDIENCE, COUNTRIES, PAGES, SOURCES, TRAFFIC, Gold
from tidemark.figures.permitted import Permitted
from tidemark.figures.reader import MissingTableError, Reader, ReadError
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.unions import UnionCache
from tidemark.figures.visitors import Grouping, distinct
from tidemark.priority import give_way

from . import clock, data, panels
from .filters import Filters
from .panel import Look

DAYS = timedelta(days=31)
WEEK = timedelta(days=7)
# The tables, and the columns, by which the first page counts visitors.
FIRST: tuple[tuple[Gold, tuple[str, ...]], ...] = (
    (TRAFFIC, ()),
    (PAGES, ("path",)),
    (COUNTRIES, ("country",)),
    (AUDIENCE, ("device",)),
    (SOURCES, ("source",)),
)
_NICE = 10


def load() -> None:
    """Imports the pages, and what the first of them imports only when it is drawn."""
    for module in pkgutil.iter_modules(panels.__path__, f"{panels.__name__}."):
        importlib.import_module(module.name)
    for name in ("deltalake", "pyarrow.compute"):
        importlib.import_module(name)


def read_first_page() -> None:
    """Reads the figures of the first page, which are remembered. Does nothing in a warehouse."""
    reader = data.shared_reader()
    if reader.root:
        with suppress(ReadError):  # the panels say so
            look = Look(reader, Filters(), clock.now(), "ahead")
            overview.changes(look.rows, look.selection(), look.extent, look.now)


def begin(reader: Reader) -> None:
    """Does so once in this process, in a low-priority thread. Not in a warehouse, which has a price, and not for
    those who may not see everything."""
    if reader.root and not isinstance(reader, Permitted):
        _begun(reader, reader.label)


@st.cache_resource(show_spinner=False)
def _begun(_reader: Reader, label: str) -> threading.Thread:
    thread = threading.Thread(target=_unite, args=(_reader, data.shared_unions()), daemon=True, name="ahead")
    thread.start()
    return thread


def _unite(reader: Reader, unions: UnionCache) -> None:
    give_way(_NICE)
    importlib.import_module("altair")  # some pages do when they are drawn
    with suppress(ReadError):  # the panels say so
        unite(reader, unions)
        declared = goals.of_site(data.goals(reader), None)
        count(reader, unions, searches.extensions(declared))


def unite(reader: Reader, unions: UnionCache) -> None:
    """Unites the newest days of the first page's figures. Raises ReadError."""
    rows = Rows(reader, unions)
    newest = of_site(extents(rows), None).newest
    if newest is None:
        return
    selection = Selection(start=datetime.combine(newest - DAYS, time(), UTC))
    for gold, by in FIRST:
        with suppress(MissingTableError):
            distinct(rows, gold.table, gold.where(selection), Grouping(by, time=gold.time))


def count(reader: Reader, unions: UnionCache, extensions: tuple[str, ...]) -> None:
    """Counts the newest days of the figures that read all lines, week by week; downloads are of files with one of the
    `extensions`. It rests as long as it has read, because an engine's threads do not give way. Raises ReadError."""
    rows = Rows(reader, unions)
    newest = of_site(extents(rows), None).newest
    if newest is None:
        return
    end = datetime.combine(newest + timedelta(days=1), time(), UTC)
    figures: tuple[Callable[[Selection], object], ...] = (
        lambda week: searches.downloads(rows, week, extensions),
        lambda week: bots.pretenders(rows, week),
        lambda week: errors.referrers(rows, week),
        lambda week: suspected.people(rows, week),
    )
    for number in range(-(-DAYS // WEEK)):
        week = Selection(start=end - (number + 1) * WEEK, end=end - number * WEEK)
        for figure in figures:
            begun = clocks.monotonic()
            with suppress(MissingTableError):
                figure(week)
            clocks.sleep(clocks.monotonic() - begun)
