"""Values of the sessions that walks are, or in which the pageviews of visitors lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from . import conditions, silver
from .columns import micros, whole
from .query import query
from .rows import Rows
from .selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa


def read(rows: Rows, selection: Selection, columns: Sequence[str], *, visitor: bool) -> pa.Table:
    """Columns of silver.sessions and what tells whose they are, for `walks` or, with `visitor`, for `visitors`."""
    if not visitor:
        where = conditions.within(selection, "start_time")
        return rows.reader.coded(query(silver.SESSIONS, ["session_id", *columns], where), columns).read_all()
    names = ["site", "visitor_id", "start_time", *columns]
    asked = query(silver.SESSIONS, names, conditions.reaching(selection))
    return rows.reader.coded(asked, ("site", *columns)).read_all()


def walks(known: pa.Table, owners: Any, columns: Sequence[str]) -> pd.DataFrame:
    """Columns of the sessions for walks that are sessions, with the keys `owners`."""
    import pyarrow.compute as pc

    wanted = whole(owners["session_id"])
    place = whole(pc.index_in(known["session_id"], wanted))
    row_of = np.full(len(wanted), -1)
    at = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
    row_of[place.drop_null().to_numpy()] = at
    return _values(known, row_of, columns)


def visitors(known: pa.Table, owners: Any, times: np.ndarray, columns: Sequence[str]) -> pd.DataFrame:
    """Columns of the sessions for walks that are visitors, with the keys `owners`: of the session in which the
    visitor's pageview of the time (microseconds since the epoch) lies."""
    import pyarrow.compute as pc

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
    return _values(known, row_of, columns)


def _key(owners: Any, sites: bool) -> Any:
    """One text for each site and visitor, or, if there is only one site, for each visitor."""
    import pyarrow as pa
    import pyarrow.compute as pc

    visitor, site = (owners[name].cast(pa.string()) for name in ("visitor_id", "site"))
    return whole(pc.binary_join_element_wise(visitor, site, " ") if sites else visitor)


def _values(known: Any, row_of: np.ndarray, columns: Sequence[str]) -> pd.DataFrame:
    """Values of these rows; the empty text where there is none, -1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.array(row_of, mask=row_of < 0)
    found = {name: known[name].unify_dictionaries().take(rows).cast(pa.string()) for name in columns}
    return pd.DataFrame({name: pc.fill_null(values, "").to_numpy() for name, values in found.items()})
