"""What figures are computed from: a reader and its unions, whose answers a dashboard may remember."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .query import Query
from .reader import Reader, frame
from .visitors import UnionCache

if TYPE_CHECKING:
    import pandas as pd


class Rows(Protocol):
    """Calling it gives the rows of a query as a frame. Raises MissingTableError or ReadError."""

    @property
    def reader(self) -> Reader: ...

    @property
    def unions(self) -> UnionCache: ...

    def __call__(self, q: Query) -> pd.DataFrame: ...


@dataclass(frozen=True)
class Direct:
    """Every query goes to the reader."""

    reader: Reader
    unions: UnionCache = field(default_factory=UnionCache)

    def __call__(self, q: Query) -> pd.DataFrame:
        return frame(self.reader.arrow(q))
