"""Cached reads: a query is asked once per table version."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pandas as pd
import streamlit as st

from tidemark.errors import SettingError
from tidemark.figures import extents as every
from tidemark.figures.declarations import declarations, home_of
from tidemark.figures.declared import Declared, Goal
from tidemark.figures.extents import Extent
from tidemark.figures.kept import Keeping
from tidemark.figures.open import open_reader
from tidemark.figures.permitted import Permitted, permitted
from tidemark.figures.query import Where, greatest, query
from tidemark.figures.reader import (
    Contract,
    MissingTableError,
    Reader,
    ReadError,
    Version,
)
from tidemark.figures.recent import Recent
from tidemark.figures.right import EVERYTHING, Right
from tidemark.figures.rows import Rows, if_any
from tidemark.figures.unions import UnionCache

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

# Memory for the rows that the pages share, and for what they compute from them.
ROWS_BYTES = 96_000_000
RESULTS_BYTES = 96_000_000
INVENTORY = "quality/tables"
PROGRESS = "quality/progress"
# Tables that are committed with every batch of lines; all others follow.
NOW = frozenset(
    {"silver/requests", "silver/rejected", "gold/traffic", "gold/visitors_by_country", "quality/accounts"}
)
# Those whose newest commit says as of when a page is.
FIRST = ("gold/traffic", "silver/requests")


@st.cache_resource(show_spinner=False)
def shared_reader(right: Right = EVERYTHING) -> Reader:
    """The one reader of this process for those with a right."""
    return open_reader() if right == EVERYTHING else permitted(shared_reader(), right)


@st.cache_resource(show_spinner=False)
def shared_unions() -> UnionCache:
    """The one cache of united days of this process."""
    return UnionCache()


# The versions at which the tables of the present panel were read.
_SEEN: ContextVar[dict[str, Version | None] | None] = ContextVar("seen", default=None)


@contextmanager
def seeing(seen: dict[str, Version | None]) -> Iterator[None]:
    """Records the tables that are read meanwhile, each at the version before its first read."""
    token = _SEEN.set(seen)
    try:
        yield
    finally:
        _SEEN.reset(token)


def _versions(reader: Reader, tables: Sequence[str]) -> tuple[Version | None, ...]:
    versions = tuple(map(reader.version, tables))
    seen = _SEEN.get()
    if seen is not None:
        for table, version in zip(tables, versions, strict=True):
            seen.setdefault(table, version)
    return versions


@st.cache_resource(show_spinner=False)
def shared_kept() -> Recent[pa.Table]:
    """The one store of rows of this process."""
    return Recent(ROWS_BYTES)


def rows_of(reader: Reader) -> Rows:
    """The `Rows` of the pages: they are kept until a table of their query has another version."""
    keeping = reader if isinstance(reader, Keeping) else Keeping(reader, shared_kept(), _versions)
    return Rows(keeping, shared_unions())


@st.cache_resource(show_spinner=False)
def shared_results() -> Recent[bytes]:
    """The one store of results of this process, each pickled: its size is known, and a panel may change its copy."""
    return Recent(RESULTS_BYTES)


def remembered(reader: Reader, tables: Sequence[str], key: str, make: Callable[[Rows], T]) -> T:
    """A copy of the result of `make`, which is kept for all viewers until one of the tables has another version."""
    versions = _versions(reader, tables)
    kept = shared_results().made(
        (reader.label, key, versions),
        lambda: pickle.dumps(make(rows_of(reader)), pickle.HIGHEST_PROTOCOL),
        len,
    )
    result: T = pickle.loads(kept)
    return result


# The pipeline changes properties only when it starts, so they are not read for every new version.
@st.cache_data(max_entries=64, ttl=timedelta(minutes=1), show_spinner=False)
def _contract(_reader: Reader, label: str, table: str) -> Contract:
    return _reader.contract(table)


def contract(reader: Reader, table: str) -> Contract:
    """The table's contract, cached for a minute; empty if it does not exist yet."""
    try:
        return _contract(reader, reader.label, table)
    except MissingTableError:
        return Contract({}, {})


def backfills(reader: Reader) -> dict[str, str]:
    """Progress of backfills as text, by table, such as `gold/pages`."""
    where = [Where("complete", "=", False)]
    rows = if_any(rows_of(reader), query(INVENTORY, ["table", "done", "total"], where, order_by=["table"]))
    return {
        table.replace(".", "/", 1): "not begun"
        if pd.isna(parts)
        else f"{done:,.0f} of {parts:,.0f} parts done"
        for table, done, parts in rows.itertuples(index=False)
    }


def others(reader: Reader) -> dict[str, str]:
    """The tables that other packages declare, and these packages' names."""
    where = [Where("package", "!=", "")]
    rows = if_any(rows_of(reader), query(INVENTORY, ["table", "package"], where, order_by=["table"]))
    return {table.replace(".", "/", 1): package for table, package in rows.itertuples(index=False)}


def extents(reader: Reader) -> dict[str, Extent]:
    """First and newest event time per site."""
    return every.extents(rows_of(reader))


def extent(reader: Reader, site: str | None) -> Extent:
    """The extent of one site, or of all of them together."""
    return every.of_site(extents(reader), site)


def flows(reader: Reader) -> dict[str, datetime]:
    """When each flow recorded its last batch."""
    rows = if_any(
        rows_of(reader),
        query(PROGRESS, {"flow": "flow", "at": greatest("recorded_at")}, group_by=["flow"]),
    )
    return {flow: at.to_pydatetime() for flow, at in rows.itertuples(index=False)} if len(rows) else {}


def goals(reader: Reader) -> Mapping[str, Goal]:
    """The goals that are `declared`. Raises ReadError."""
    try:
        return declared(reader).goals
    except SettingError as error:
        raise ReadError(str(error)) from error


def declared(reader: Reader) -> Declared:
    """The declarations in the settings file that the viewer may see; without the file, the goals that the pipeline
    knows. Raises ReadError."""
    right = reader.right if isinstance(reader, Permitted) else EVERYTHING
    try:
        return declarations(rows_of(reader), right)
    except SettingError as error:
        raise ReadError(str(error)) from error


def home(reader: Reader) -> Path | None:
    """The home whose settings belong to the tables, if they are in a directory."""
    return home_of(reader)
