"""The input of figures: a reader and its unions, whose answers a dashboard may cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tidemark.figures.query import Query
from tidemark.figures.reader import MissingTableError, Reader, frame
from tidemark.figures.unions import UnionCache

if TYPE_CHECKING:
    import pandas as pd


class Rows(Protocol):
    """Calling it gives the rows of a query as a frame. Raises MissingTableError or ReadError."""

    @property
    def reader(self) -> Reader: ...

    @property
    def unions(self) -> UnionCache: ...

    def __call__(self, q: Query) -> pd.DataFrame: ...


def if_any(rows: Rows, q: Query, types: Mapping[str, str] | None = None) -> pd.DataFrame:
    """The rows of a query; none, with columns of these types, where its table does not exist yet. Raises ReadError."""
    import pandas as pd

    try:
        return rows(q)
    except MissingTableError:
        return pd.DataFrame({name: [] for name, _ in q.columns}).astype(types or {})


@dataclass(frozen=True)
class Direct:
    """Every query goes to the reader."""

    reader: Reader
    unions: UnionCache = field(default_factory=UnionCache)

    def __call__(self, q: Query) -> pd.DataFrame:
        return frame(self.reader.arrow(q))
