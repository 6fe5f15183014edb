"""The input of figures: a reader and its unions, whose answers a dashboard may cache."""

from __future__ import annotations

from collections.abc import Mapping
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
