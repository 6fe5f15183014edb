"""The dialog that accounts for the change of a figure: which values moved most, with their lines."""

from __future__ import annotations

import functools

import pandas as pd
import streamlit as st

from tidemark.figures import silver
from tidemark.figures.comparison import Change
from tidemark.figures.explain import VALUE, Explained, explain
from tidemark.figures.selection import Selection, filters_of
from tidemark.figures.text import clipped, shown

from .. import country, data
from ..panel import Look, nothing
from . import actions, compared
from .grid import change_column, grid_with_actions, percent_column

TABLES = (silver.REQUESTS, silver.SESSIONS)
SHOWN = 40
VALUE_SHOWN = 120


def offer(look: Look, selection: Selection, metric: str, label: str) -> None:
    """A button in a panel's heading that opens the dialog for a metric of explain.METRICS, where the selection has an
    earlier period."""
    period = look.earlier(selection)
    if period is None or look.tools is None:
        return
    view = actions.Whole(
        f"{label}: what moved", functools.partial(_body, metric=metric, selection=selection, period=period)
    )
    with look.tools:
        st.button(
            "What moved", key=f"moved-{look.key}", type="tertiary", icon=":material/troubleshoot:",
            help="Which pages, sources, countries and other values account for the change.",
            on_click=actions.open_view, args=(view,),
        )  # fmt: skip


def _body(look: Look, *, metric: str, selection: Selection, period: Selection) -> None:
    with st.spinner("Comparing the two periods …"):
        found = data.remembered(
            look.reader, TABLES, f"moved {metric} {selection} {period}",
            lambda rows: explain(rows, metric, selection, period),
        )  # fmt: skip
    st.caption(_words(look, found, selection))
    rows = found.rows[(found.rows["kind"] == VALUE) & (found.rows["change"] != 0)].head(SHOWN)
    rows = rows.reset_index(drop=True)
    if rows.empty:
        return nothing("Nothing moved.")
    changes = [Change(now, before) for now, before in zip(rows["now"], rows["before"], strict=True)]
    table = pd.DataFrame(
        {
            "what": rows["dimension"].str.capitalize(),
            "value": [_named(d, v) for d, v in zip(rows["dimension"], rows["value"], strict=True)],
            "share": rows["share"].astype("float64"),
            "change": compared.ratios(changes),
            "before": rows["before"],
            "now": rows["now"],
        }
    )
    number = st.column_config.NumberColumn
    form = "percent" if rows["now"].dtype.kind == "f" else "localized"
    columns = {
        "what": st.column_config.TextColumn("What", width="small"),
        "value": st.column_config.TextColumn("Value", width="medium"),
        "share": percent_column("Of the change", "The part of the figure's change that is of this value."),
        "change": change_column(),
        "before": number("Before", format=form),
        "now": number("Now", format=form),
    }
    filters = [filters_of(texts) for texts in rows["filters"]]
    grid_with_actions(table, "what-moved", columns, filters, selection, rows=14)
    return None


def _words(look: Look, found: Explained, selection: Selection) -> str:
    rate = found.metric.endswith("_rate")
    now, before = (
        "–" if value is None else f"{value:.1%}" if rate else f"{value:,.0f}"
        for value in (found.now, found.before)
    )
    return f"{before} before, {now} now. {compared.said_of(look, selection)}"


def _named(dimension: str, value: str) -> str:
    return clipped(shown(country.name(value) if dimension == "country" else value), VALUE_SHOWN) or "(none)"
