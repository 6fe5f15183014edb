"""The input of figures: a reader and its unions, whose answers a dashboard may cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemark.figures.query import Query
from tidemark.figures.reader import MissingTableError, Reader, frame
from tidemark.figures.unions import UnionCache

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Rows:
    """Calling it gives the rows of a query as a frame. Raises MissingTableError or ReadError."""

    reader: Reader
    unions: UnionCache = field(default_factory=UnionCache)

    def __call__(self, q: Query) -> pd.DataFrame:
        return frame(self.reader.arrow(q))


def if_any(rows: Rows, q: Query, types: Mapping[str, str] | None = None) -> pd.DataFrame:
    """The rows of a query; none, with columns of these types, where its table does not exist yet. Raises ReadError."""
    import pandas as pd

    try:
        return rows(q)
    except MissingTableError:
        return pd.DataFrame({name: [] for name, _ in q.columns}).astype(types or {})


def ordered(frame: pd.DataFrame, order_by: Sequence[str], limit: int | None = None) -> pd.DataFrame:
    """The first rows of a frame in the order of a query."""
    if order_by:
        ascending = [not name.startswith("-") for name in order_by]
        names = [name.removeprefix("-") for name in order_by]
        frame = frame.sort_values(names, ascending=ascending, ignore_index=True)
    return frame if limit is None else frame.head(limit)
