"""A chart's numbers as a table with links to requests, for readers who cannot point at its marks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from ..controls import actions
from ..controls.grid import grid
from ..panel import Look
from . import basic

if TYPE_CHECKING:
    import altair as alt

# The requests behind a row: a label and what to open.
Opens = Callable[[int], Sequence[tuple[str, actions.Requests]]]
HELP = (
    "Show the chart's numbers as a table, whose rows open their requests; by keyboard, Shift and the space bar select "
    "the row of the cell in focus."
)


def data_view(
    look: Look, table: pd.DataFrame, columns: Mapping[str, Any], opens: Opens | None = None, part: str = ""
) -> None:
    """A button in the panel's heading that opens a table; a selected row offers what `opens` says of it. `part` tells
    several charts of a panel apart."""
    key = look.key + part
    body = functools.partial(_numbers, key=key, table=table, columns=columns, opens=opens)
    with look.tools if look.tools is not None else st.container():
        st.button(
            "Data",
            type="tertiary",
            icon=":material/table_rows:",
            help=HELP,
            key=f"data-{key}",
            on_click=actions.open_view,
            args=(actions.Whole(look.title or "Data", body),),
        )


def _numbers(
    look: Look, *, key: str, table: pd.DataFrame, columns: Mapping[str, Any], opens: Opens | None
) -> None:
    picked = grid(table, f"{key}-data", dict(columns), rows=14, select=opens is not None)
    if picked is None or opens is None:
        return
    with st.container(horizontal=True):
        for number, (label, requests) in enumerate(opens(picked)):
            actions.requests_button(requests, f"data-{key}-{number}", label)


def draw(
    look: Look,
    chart: alt.TopLevelMixin | dict[str, Any],
    words: str,
    table: pd.DataFrame,
    columns: Mapping[str, Any],
    marks: Sequence[Mapping[str, Any]],
    opens: Callable[[int], actions.Requests],
) -> None:
    """Draws a chart whose marks stand for the rows of a table: `marks` has the fields of each, and `opens` its
    requests. `words` say what the chart shows."""

    def picked(points: list[dict[str, Any]]) -> None:
        for row, mark in enumerate(marks):
            if all(points[0].get(name) == value for name, value in mark.items()):
                actions.open_view(opens(row))
                return

    basic.draw(chart, look.key, words, picked)
    data_view(look, table, columns, lambda row: [("Show requests", opens(row))])
