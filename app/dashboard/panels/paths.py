"""Paths: the pages that sessions go through, from their entry, from a page, or back from it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures import paths, walk_queries
from tidemark.figures.paths import LEFT, OTHER, Paths
from tidemark.figures.reader import Reader
from tidemark.figures.selection import Selection
from tidemark.figures.silver import SESSIONS, STEPS, VIEW
from tidemark.figures.text import clipped, plain, several, shown

from .. import data
from ..charts import basic, flow
from ..controls import actions
from ..controls.compared import period_text
from ..controls.grid import bar_column, count_column, grid, percent_column
from ..controls.suggested import suggested_pages
from ..filters import Filters
from ..panel import NOTHING, EmptyError, Look, meaning, panel

TABLES = (STEPS, SESSIONS)
VIEWS = (VIEW,)
ENTRY, FROM, BACK = "From the entry", "From a page", "Back from a page"
FOLDED = "fold"
SUGGESTED = 100
PATH_SHOWN = 200
SELDOM = 60.0


def page(reader: Reader, filters: Filters) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", key="choose-paths"):
        st.session_state.setdefault("direction", ENTRY)
        st.segmented_control(
            "Direction", (ENTRY, FROM, BACK), key="direction", required=True, bind="query-params"
        )
        # Drawn even if it is not used: only an existing widget gets the value that a click sets in the address.
        known = st.session_state.get("start")
        options = list(
            dict.fromkeys((*([known] if known else []), *suggested_pages(reader, filters, SUGGESTED)))
        )
        st.selectbox(
            "Page",
            options,
            index=None,
            key="start",
            bind="query-params",
            accept_new_options=True,
            placeholder="Choose, or type such as /docs*",
            width=320,
            disabled=_direction() == ENTRY,
            help="Paths begin at its first occurrence in a session. An asterisk stands for any characters.",
        )
        st.toggle(
            "Fold folders",
            key=FOLDED,
            bind="query-params",
            help="All pages of a folder are one, such as /products/*, so that less is left to the others.",
        )
    if _direction() != ENTRY and not _start():
        st.text("Choose the page at which the paths begin or end.")
        return
    flow_panel(reader, filters)


def _direction() -> str:
    return str(st.session_state.get("direction") or ENTRY)


def _start() -> str | None:
    """The page at which paths begin; None at the entry."""
    chosen = st.session_state.get("start")
    return None if _direction() == ENTRY or not chosen else str(chosen)


def _folded() -> bool:
    return bool(st.session_state.get(FOLDED))


def _sql(look: Look) -> str:
    return walk_queries.paths(
        look.selection(), _start(), look.reader.root, backward=_direction() == BACK, folded=_folded()
    )


def _counted(look: Look, selection: Selection, shown_pages: int = paths.SHOWN) -> Paths:
    start, backward, folded = _start(), _direction() == BACK, _folded()
    key = f"paths {selection} {start} {backward} {folded} {shown_pages}"
    return data.remembered(
        look.reader,
        TABLES,
        key,
        lambda rows: paths.paths(rows, selection, start, backward=backward, shown=shown_pages, folded=folded),
    )


def _begin_at(marks: list[dict[str, Any]]) -> None:
    """A callback: a clicked page becomes the start."""
    path = str(marks[0].get("path", ""))
    if path in (OTHER, LEFT, ""):
        return
    if _direction() == ENTRY:
        st.session_state["direction"] = FROM
    st.session_state["start"] = path
    st.session_state[actions.CHANGED] = True


@panel("Flow", STEPS, SESSIONS, every=SELDOM, help=meaning("paths"), requests=VIEWS, query=_sql)
def flow_panel(look: Look) -> None:
    selection = look.selection()
    walked = _counted(look, selection)
    number = int(walked.levels[0]["count"].sum()) if len(walked.levels[0]) else 0
    if not number:
        raise EmptyError(NOTHING, look)
    backward = _direction() == BACK
    way = "back from" if backward else "from"
    where = "their entry" if _start() is None else clipped(shown(_start()), PATH_SHOWN)
    st.caption(plain(f"{several(number, 'session')} {way} {where}. A click on a page makes it the start."))
    words = flow.described(walked, backward=backward)
    with st.container(key="flow-chart"):
        basic.draw(flow.flow(walked, backward=backward), look.key, words, _begin_at)
    with (unfolded := st.expander("As a table", key="paths-table", on_change="rerun")):
        # The earlier period is only read for somebody who looks at it.
        period = look.earlier(selection) if unfolded.open else None
        _table(look, walked, period, backward=backward)
        if period is not None:
            st.caption(period_text(look, selection))


def _table(look: Look, walked: Paths, period: Selection | None, *, backward: bool) -> None:
    before = None if period is None else _counted(look, period, shown_pages=1000)
    went = walked.links.groupby(["level", "source"])["count"].sum()
    left = walked.links[walked.links["target"] == LEFT].set_index(["level", "source"])["count"]
    rows = []
    for level, sheet in enumerate(walked.levels):
        total = int(sheet["count"].sum())
        was = {} if before is None else dict(before.levels[level].itertuples(index=False, name=None))
        every = sum(was.values())
        for path, count in sheet.itertuples(index=False):
            at = (level, path)
            ended = int(left.get(at, 0)) if path != LEFT else 0
            rows.append(
                {
                    "level": -level if backward else level,
                    "path": "began" if backward and path == LEFT else clipped(shown(path), PATH_SHOWN),
                    "count": count,
                    "share": count / total,
                    "before": was.get(path, 0) / every if every and path != OTHER else None,
                    "on": int(went[at]) - ended if at in went.index else None,
                    "left": ended if at in went.index else None,
                }
            )
    table = pd.DataFrame(rows)
    ends = "began" if backward else "ended"
    settings = {
        "level": st.column_config.NumberColumn("Level", format="%d", width="small"),
        "path": st.column_config.TextColumn("Page", width="medium"),
        "count": bar_column("Sessions", table["count"].max()),
        "share": percent_column("Of the level"),
        "before": percent_column("Earlier", "Share of the level in the earlier period."),
        "on": count_column("Came from another page" if backward else "Went on"),
        "left": count_column("Began here" if backward else "Left", f"Sessions that {ends} here."),
    }
    grid(table, "paths", settings, rows=14)
