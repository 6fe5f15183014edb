"""Distinct visitors for the panels: unions of days are kept for all sessions of the dashboard."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from tidemark.figures import visitors
from tidemark.figures.query import Where
from tidemark.figures.reader import Reader


@st.cache_resource(show_spinner=False)
def shared_unions() -> visitors.UnionCache:
    """The one cache of this process."""
    return visitors.UnionCache()


def distinct(
    reader: Reader,
    table: str,
    where: Sequence[Where],
    *,
    by: Sequence[str] = (),
    bin_seconds: int | None = None,
) -> pd.DataFrame:
    """Like `figures.visitors.distinct`, with the shared cache."""
    return visitors.distinct(reader, table, where, by=by, bin_seconds=bin_seconds, cache=shared_unions())
