"""The values that account for the change of a figure, with their lines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from tidemark.figures import comparison, explain, silver
from tidemark.figures.comparison import Change
from tidemark.figures.explain import Explained
from tidemark.figures.selection import Selection, filters_of
from tidemark.figures.text import clipped, shown

from .. import clock, country, data
from ..panel import Look, nothing
from . import actions, compared
from .grid import change_column, grid_with_actions, percent_column

TABLES = (silver.REQUESTS, silver.SESSIONS)
SHOWN = 40
_OUTSTANDING = 6
VALUE_SHOWN = 120
LABELS = {
    "requests": "Requests", "pageviews": "Pageviews", "visitors": "Visitors", "sessions": "Sessions",
    "bounces": "Bounces", "bounce_rate": "Bounce rate", "bytes": "Bytes", "bot_requests": "Requests of bots",
    "share_bots": "Bots, of all requests", "not_found": "404", "status_4xx": "4xx", "status_5xx": "5xx",
    "share_5xx": "5xx, of all requests",
}  # fmt: skip


def offer(
    look: Look, selection: Selection, metric: str, place: DeltaGenerator | None = None, name: str = ""
) -> None:
    """A button, in a panel's heading or another place, that opens the dialog for a metric of explain.METRICS or
    `goal:NAME`. None where the period before the selection is not known. `name` tells several of a panel apart."""
    comparable = replace(selection, comparison=selection.comparison or "previous")
    period = comparison.earlier(comparable, data.extent(look.reader, selection.site), look.now)
    place = look.tools if place is None else place
    if period is None or place is None:
        return
    body = functools.partial(_body, metric=metric, selection=selection, period=period)
    with place:
        st.button(
            "What moved",
            key=f"moved-{look.key}{name}",
            type="tertiary",
            icon=":material/troubleshoot:",
            help=f"Which pages, sources, countries and other values account for the change: {_label(metric)}.",
            on_click=actions.open_view,
            args=(actions.Whole("What moved", body),),
        )


def offers(look: Look, selection: Selection, metrics: Mapping[str, str]) -> Callable[[str], None]:
    """Draws such a button for a tile by its name, if `metrics` has one for it."""

    def draw(name: str) -> None:
        if name in metrics:
            place = st.container(key=f"why-{look.key}-{name}")
            offer(look, selection, metrics[name], place, f"-{name}")

    return draw


def _body(look: Look, *, metric: str, selection: Selection, period: Selection) -> None:
    known = list(dict.fromkeys((metric, *explain.METRICS)))
    chosen = st.selectbox("Figure", known, format_func=_label, key=f"moved-figure-{metric}", width=320)
    declared = data.declared(look.reader)
    with st.spinner("Comparing the two periods …"):
        explained = data.remembered(
            look.reader,
            TABLES,
            f"moved {chosen} {selection} {period} {declared}",
            lambda rows: explain.explain(rows, chosen, selection, period, declared),
        )
    draw(look, explained, "what-moved", SHOWN, rows=14)


def draw(look: Look, explained: Explained, name: str, limit: int, *, rows: int = 10) -> None:
    """Draws the values that account for a change in a table of this name: first those that did not just change as
    everything did, then the largest."""
    st.caption(_words(look, explained))
    changed = explained.rows[(explained.rows["kind"] == explain.VALUE) & (explained.rows["change"] != 0)]
    values = pd.concat([explain.outstanding(explained, _OUTSTANDING), changed])
    values = values.drop_duplicates(["dimension", "value"]).head(limit).reset_index(drop=True)
    if values.empty:
        return nothing("Nothing moved.")
    changes = [Change(now, before) for now, before in zip(values["now"], values["before"], strict=True)]
    table = pd.DataFrame(
        {
            "what": values["dimension"].str.capitalize(),
            "value": [_named(d, v) for d, v in zip(values["dimension"], values["value"], strict=True)],
            "share": values["share"].astype("float64"),
            "change": compared.ratios(changes),
            "before": values["before"],
            "now": values["now"],
        }
    )
    number = st.column_config.NumberColumn
    form = "percent" if values["now"].dtype.kind == "f" else "localized"
    columns = {
        "what": st.column_config.TextColumn("What", width="small"),
        "value": st.column_config.TextColumn("Value", width="medium"),
        "share": percent_column("Of the change", "The part of the figure's change that is of this value."),
        "change": change_column(),
        "before": number("Before", format=form),
        "now": number("Now", format=form),
    }
    filters = [filters_of(texts) for texts in values["filters"]]
    grid_with_actions(table, name, columns, filters, explained.selection, rows=rows)
    return None


def _label(metric: str) -> str:
    return LABELS.get(metric) or shown(metric)


def _words(look: Look, explained: Explained) -> str:
    share = explained.metric in explain.METRICS and explain.METRICS[explained.metric].per
    now, before = (
        "–" if value is None else f"{value:.1%}" if share else f"{value:,.0f}"
        for value in (explained.now, explained.before)
    )
    start, end = (
        "now" if at is None else clock.stamp(at, look.filters.zone)[:16]
        for at in (explained.selection.start, explained.selection.end)
    )
    sentence = f"{_label(explained.metric)}: {now} from {start} to {end}, {before} before"
    return f"{sentence}, {compared.period_words(look, explained.period)}."


def _named(dimension: str, value: str) -> str:
    text = country.name(value) if dimension == "country" else value
    return clipped(shown(text), VALUE_SHOWN) or explain.MISSING[dimension]
