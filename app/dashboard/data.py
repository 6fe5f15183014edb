"""Cached reads: a query is asked once per table version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import streamlit as st

from .query import Expression, Query, Where, greatest, least, query
from .reader import Contract, MissingTableError, Reader, Version, frame, open_reader

INVENTORY = "quality/tables"


@dataclass(frozen=True)
class Extent:
    """Event times that a site's data spans (UTC); both None where there is none."""

    first: datetime | None = None
    newest: datetime | None = None


@st.cache_resource(show_spinner=False)
def shared_reader() -> Reader:
    """The one reader of this process."""
    return open_reader()


def rows(
    reader: Reader,
    table: str,
    columns: Sequence[str] | Mapping[str, str | Expression],
    where: Sequence[Where] = (),
    *,
    group_by: Sequence[str] = (),
    order_by: Sequence[str] = (),
    limit: int | None = None,
) -> pd.DataFrame:
    """Like `reader.read`, remembered until the table's version changes. Raises ReadError."""
    q = query(table, columns, where, group_by=group_by, order_by=order_by, limit=limit)
    return _rows(reader, reader.label, repr(q), q, reader.version(table))


def rows_if_any(reader: Reader, table: str, *args: Any, **kwargs: Any) -> pd.DataFrame:
    """Like `rows`; empty, without columns, where the table does not exist yet."""
    try:
        return rows(reader, table, *args, **kwargs)
    except MissingTableError:
        return pd.DataFrame()


@st.cache_data(max_entries=256, ttl=timedelta(minutes=30), show_spinner=False)
def _rows(_reader: Reader, label: str, key: str, _query: Query, version: Version | None) -> pd.DataFrame:
    return frame(_reader.arrow(_query))


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
    found = rows_if_any(reader, INVENTORY, ["table", "done", "total"], where, order_by=["table"])
    return {
        table.replace(".", "/", 1): "not begun"
        if pd.isna(parts)
        else f"{done:,.0f} of {parts:,.0f} parts done"
        for table, done, parts in found.itertuples(index=False)
    }


def others(reader: Reader) -> dict[str, str]:
    """The tables that other packages declare, and these packages' names."""
    where = [Where("package", "!=", "")]
    found = rows_if_any(reader, INVENTORY, ["table", "package"], where, order_by=["table"])
    return {table.replace(".", "/", 1): package for table, package in found.itertuples(index=False)}


def extents(reader: Reader) -> dict[str, Extent]:
    """First and newest event time per site, from the accounts of the sites or, without them, gold."""
    if reader.version("quality/sites") is not None:
        found = rows(reader, "quality/sites", ["site", "first_event_time", "newest_event_time"])
        found.columns = pd.Index(["site", "first", "newest"])
    elif reader.version("gold/traffic") is not None:
        columns = {"site": "site", "first": least("window_start"), "newest": greatest("window_end")}
        found = rows(reader, "gold/traffic", columns, group_by=["site"])
    else:
        return {}
    found = found.dropna()
    return {
        site: Extent(first.to_pydatetime(), newest.to_pydatetime())
        for site, first, newest in zip(found["site"], found["first"], found["newest"], strict=True)
    }


def extent(reader: Reader, site: str | None) -> Extent:
    """The extent of one site, or of all of them together."""
    known = extents(reader)
    if site is not None:
        return known.get(site, Extent())
    if not known:
        return Extent()
    return Extent(
        min(e.first for e in known.values() if e.first), max(e.newest for e in known.values() if e.newest)
    )
