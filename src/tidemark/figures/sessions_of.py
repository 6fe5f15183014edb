"""A column of the sessions that walks are, or in which the pageviews of visitors lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tidemark.figures import conditions, silver
from tidemark.figures.columns import micros, whole
from tidemark.figures.query import query
from tidemark.figures.reader import again
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa


@again
def of_walks(rows: Rows, selection: Selection, column: str, owners: Any) -> np.ndarray:
    """The column of silver.sessions for walks that are sessions of the selection, with the keys `owners`."""
    import pyarrow.compute as pc

    wanted = query(silver.SESSIONS, ["session_id", column], conditions.within(selection, "start_time"))
    known = rows.reader.coded(wanted, [column]).read_all()
    place = whole(pc.index_in(known["session_id"], whole(owners["session_id"])))
    row_of = np.full(len(owners), -1)
    at = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
    row_of[place.drop_null().to_numpy()] = at
    return _values(known[column], row_of)


@again
def of_visitors(rows: Rows, selection: Selection, column: str, owners: Any, times: np.ndarray) -> np.ndarray:
    """The column of silver.sessions for walks that are visitors, with the keys `owners`: of the session in which the
    visitor's pageview of the time (microseconds since the epoch) lies."""
    import pyarrow.compute as pc

    names = ["site", "visitor_id", "start_time", column]
    wanted = query(silver.SESSIONS, names, conditions.reaching(selection))
    known = rows.reader.coded(wanted, ["site", column]).read_all()
    sites = {
        site for each in (known, owners) for site in pc.unique(each["site"].unify_dictionaries()).to_pylist()
    }
    place = whole(pc.index_in(*(_key(each, len(sites) > 1) for each in (known, owners))))
    at = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
    who, started = place.drop_null().to_numpy(), micros(whole(known["start_time"]))[at]
    before = started <= times[who]
    at, who, started = at[before], who[before], started[before]
    # A visitor's sessions do not overlap, so it is the last one that started before.
    last = np.full(len(times), np.iinfo(np.int64).min)
    np.maximum.at(last, who, started)
    row_of = np.full(len(times), -1)
    is_last = started == last[who]
    row_of[who[is_last]] = at[is_last]
    return _values(known[column], row_of)


def _key(owners: Any, sites: bool) -> Any:
    """One text for each site and visitor, or, if there is only one site, for each visitor."""
    import pyarrow as pa
    import pyarrow.compute as pc

    visitor, site = (owners[name].cast(pa.string()) for name in ("visitor_id", "site"))
    return whole(pc.binary_join_element_wise(visitor, site, " ") if sites else visitor)


def _values(column: pa.ChunkedArray, row_of: np.ndarray) -> np.ndarray:
    """Values of these rows; the empty text where there is none, -1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.unify_dictionaries().take(pa.array(row_of, mask=row_of < 0)).cast(pa.string())
    values: np.ndarray = pc.fill_null(texts, "").to_numpy()
    return values
