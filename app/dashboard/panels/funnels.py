"""Funnels: how many sessions or visitors took a number of steps in order, and where the others went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures import funnels, walk_queries
from tidemark.figures.comparison import Change, known
from tidemark.figures.declared import Definition
from tidemark.figures.funnels import LABELS, Funnel
from tidemark.figures.reader import Reader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import REQUESTS, SESSIONS, STEPS, VIEW
from tidemark.figures.text import clipped, duration, number, percent, plain, shown

from .. import country, data
from ..charts import basic, stepchart
from ..controls import funnelchoice
from ..controls.actions import filters_by
from ..controls.compared import metric, period_text
from ..controls.grid import change_column, count_column, grid, grid_with_actions, percent_column, sheet
from ..controls.toplist import toplist
from ..filters import Filters
from ..panel import EmptyError, Look, beside, meaning, panel, some
from .countries import device_name
from .sources import channel_name

TABLES = (REQUESTS, SESSIONS, STEPS)
VIEWS = (VIEW,)
NAME_SHOWN = 80
LISTED = 200
# Pages that those viewed next who left at a step.
NEXT = 10
# A funnel reads many rows, so it is not counted again for every batch.
SELDOM = 60.0


def page(reader: Reader, filters: Filters) -> None:
    if funnelchoice.choose(reader, filters) is None:
        return
    steps_panel(reader, filters)
    beside(reader, filters, by_panel, lost_panel)


def _sql(look: Look) -> str:
    return walk_queries.funnel(look.selection(), funnelchoice.chosen(look.reader), look.reader.root)


def _sql_by(look: Look) -> str:
    definition = funnelchoice.chosen(look.reader)
    return walk_queries.funnel_by(look.selection(), definition, _label(), look.reader.root)


def _sql_lost(look: Look) -> str:
    definition = funnelchoice.chosen(look.reader)
    return walk_queries.lost(look.selection(), definition, NEXT + 1, look.reader.root)


def _with_lost(look: Look, selection: Selection, definition: Definition) -> tuple[Funnel, list[pd.DataFrame]]:
    """The funnel and where the others went, which the panels share."""
    key = f"walks of a funnel {selection} {definition}"
    return data.remembered(
        look.reader, TABLES, key, lambda rows: funnels.with_lost(rows, selection, definition, NEXT + 1)
    )


def _counted(look: Look, selection: Selection, definition: Definition) -> pd.DataFrame:
    key = f"funnel {selection} {definition}"
    return data.remembered(
        look.reader, TABLES, key, lambda rows: _with_lost(look, selection, definition)[0].table()
    )


def _counted_before(look: Look, period: Selection, definition: Definition) -> pd.DataFrame:
    key = f"funnel {period} {definition}"
    return data.remembered(
        look.reader, TABLES, key, lambda rows: funnels.funnel(rows, period, definition).table()
    )


def _counted_by(look: Look, selection: Selection, definition: Definition, label: str) -> pd.DataFrame:
    def make(rows: Rows) -> pd.DataFrame:
        return funnels.by(rows, selection, definition, _with_lost(look, selection, definition)[0], label)

    return data.remembered(look.reader, TABLES, f"funnel {selection} {definition} {label}", make)


def _label() -> str:
    return str(st.session_state.get("split") or LABELS[0]).lower()


@panel("Steps", REQUESTS, every=SELDOM, help=meaning("funnel"), requests=VIEWS, query=_sql)
def steps_panel(look: Look) -> None:
    selection, definition = look.selection(), funnelchoice.chosen(look.reader)
    unit = "Visitors" if definition.visitor else "Sessions"
    table = _counted(look, selection, definition)
    if not table["count"].iloc[0]:
        raise EmptyError(
            f"Nobody took the first step, {shown(definition.steps[0].pattern)}, in this range.", look
        )
    period = look.earlier(selection)
    before = None if period is None else _counted_before(look, period, definition)
    _tiles(table, before, unit)
    period_words = period_text(look, selection)
    if period_words:
        st.caption(period_words + (" The dashed marks are its shares." if before is not None else ""))
    drawn = pd.DataFrame(
        {
            "name": [f"{i}  {clipped(shown(n), NAME_SHOWN)}" for i, n in enumerate(table["name"], 1)],
            "count": table["count"],
            "label": [
                f"{n:,} · {share:.1%}" for n, share in zip(table["count"], table["of_first"], strict=True)
            ],
        }
    )
    if before is not None:
        drawn["before"] = before["of_first"] * table["count"].iloc[0]
    words = f"{unit} by step: " + ", ".join(
        f"{name} {label}" for name, label in zip(drawn["name"], drawn["label"], strict=True)
    )
    basic.draw(stepchart.bars(drawn, unit), look.key, words + ".")
    text = st.column_config.TextColumn
    changes = None if before is None else _changes(table["of_first"], before["of_first"])
    earlier = None if before is None else before["of_first"]
    shown_table, settings = sheet(
        {
            "step": (drawn["name"], text("Step", width="medium")),
            "count": (table["count"], count_column(unit)),
            "of_first": (table["of_first"], percent_column("Of the first")),
            "of_previous": (table["of_previous"], percent_column("Of the one before")),
            "before": (earlier, percent_column("Earlier, of the first")),
            "change": (changes, change_column(help=meaning("change"))),
            "median": (
                [duration(s) for s in table["median_seconds"]],
                text("Median time", help="From the first step."),
            ),
        }
    )
    grid(shown_table, "funnel", settings)


def _changes(now: pd.Series, before: pd.Series) -> list[float | None]:
    pairs = zip(map(known, now), map(known, before), strict=True)
    return [None if a == b else Change(a, b).sorted_by for a, b in pairs]


def _tiles(table: pd.DataFrame, before: pd.DataFrame | None, unit: str) -> None:
    def change(column: str, place: int) -> Change:
        was = None if before is None else known(before[column].iloc[place])
        return Change(known(table[column].iloc[place]), was)

    tiles: list[tuple[str, Change, Callable[[Any], str], bool | None]] = [
        (f"{unit} at the first step", change("count", 0), number, True),
        ("Took every step", change("count", -1), number, True),
        ("Of the first", change("of_first", -1), percent, True),
        ("Median time to the last", change("median_seconds", -1), duration, None),
    ]
    for cell, (label, each, text, better) in zip(st.columns(4), tiles, strict=True):
        with cell:
            metric(label, each, text(each.now), better)


@panel("By channel, country or device", REQUESTS, every=SELDOM, help=meaning("funnel"), query=_sql_by)
def by_panel(look: Look) -> None:
    selection, definition = look.selection(), funnelchoice.chosen(look.reader)
    names = [name.capitalize() for name in LABELS]
    st.segmented_control(
        "By",
        names,
        key="split",
        default=names[0],
        required=True,
        bind="query-params",
        label_visibility="collapsed",
    )
    label = _label()
    counts = some(_counted_by(look, selection, definition, label), look=look)
    names_of: dict[str, Callable[[str], str]] = {
        "country": country.name,
        "device": device_name,
        "channel": channel_name,
    }
    named = names_of[label]
    steps = range(len(definition.steps))
    table = pd.DataFrame({"value": [clipped(shown(named(v)), NAME_SHOWN) for v in counts[label]]})
    table["share"] = counts[steps[-1]] / counts[0]
    for k in steps:
        table[f"step{k + 1}"] = counts[k]
    settings = {
        "value": st.column_config.TextColumn(label.capitalize(), width=110),
        "share": percent_column("Took every step", "Of those who took the first."),
    }
    settings |= {
        f"step{k + 1}": count_column(f"{k + 1} {clipped(shown(definition.steps[k].name), 24)}") for k in steps
    }
    filters = filters_by(counts, label)
    grid_with_actions(table.head(LISTED), "funnel-by", settings, filters, selection, rows=8, where=VIEWS)


@panel("Where they left", REQUESTS, every=SELDOM, help=meaning("lost"), requests=VIEWS, query=_sql_lost)
def lost_panel(look: Look) -> None:
    selection, definition = look.selection(), funnelchoice.chosen(look.reader)
    every = _with_lost(look, selection, definition)[1]
    names = [f"{k + 1}  {clipped(shown(step.name), 24)}" for k, step in enumerate(definition.steps[:-1])]
    chosen = st.segmented_control(
        "After step",
        names,
        key=f"lost-{len(names)}",
        default=names[0],
        required=True,
        label_visibility="collapsed",
        format_func=plain,
    )
    left = every[names.index(chosen)] if chosen in names else every[0]
    if left.empty:
        step = names.index(chosen) if chosen in names else 0
        took = int(_counted(look, selection, definition)["count"].iloc[step])
        raise EmptyError(
            "Everybody who took this step took the next one, too." if took else "Nobody took this step."
        )
    further = left[left["path"].notna()].reset_index(drop=True)
    ended = int(left.loc[left["path"].isna(), "count"].sum())
    if ended:
        st.caption(f"{ended:,} of those who left here viewed no further page.")
    if len(further):
        toplist(look, further, "path", "count", heading="Viewed next", rows=NEXT)
