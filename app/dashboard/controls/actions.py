"""Actions of a click: add a filter, open the requests behind a figure, open a whole table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures import calendar
from tidemark.figures.query import Condition
from tidemark.figures.selection import Filter, Selection
from tidemark.figures.text import plain

from .. import who
from ..filters import CUSTOM
from . import address

CHANGED = "changed"
OPENED = "opened"
WANTED = "wanted page"
# The icon of buttons that open requests.
REQUESTS = ":material/list_alt:"
LOCKED = "Only analysts see single requests."


@dataclass(frozen=True)
class Requests:
    """Opens the newest requests of a selection; `where` are further conditions on rows of silver.requests."""

    selection: Selection
    where: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Whole:
    """Opens a panel's whole table, which `body` draws from a `Look`."""

    title: str
    body: Callable[[Any], None]


def is_filter(field: str, value: Any) -> Filter:
    return Filter(field, "is", ("" if value is None else str(value),))


def filters_by(rows: pd.DataFrame, *fields: str) -> list[tuple[Filter, ...]]:
    """The filters that keep each row's values of these fields."""
    return [
        tuple(map(is_filter, fields, values))
        for values in rows[list(fields)].itertuples(index=False, name=None)
    ]


def add_filter(*filters: Filter) -> None:
    """A callback: adds filters to the bar."""
    add_texts(*map(str, filters))


def add_texts(*texts: str) -> None:
    """A callback: adds filters in their text form."""
    address.choose(filters=tuple(dict.fromkeys((*address.choice().filters, *texts))))
    st.session_state[OPENED] = None
    st.session_state[CHANGED] = True


def remove_filter(text: str) -> None:
    """A callback: removes a filter from the bar."""
    address.choose(filters=tuple(each for each in address.choice().filters if each != text))
    st.session_state[CHANGED] = True


def zoom(start: datetime, end: datetime, zone: str) -> None:
    """A callback: makes wall-clock times of a zone the range of all pages."""
    bounds = [calendar.utc(at, zone) for at in (start, end)]
    address.choose(range=CUSTOM, start=bounds[0], end=bounds[1])
    st.session_state[OPENED] = None
    st.session_state[CHANGED] = True


def show_chart(name: str) -> None:
    """A callback: chooses the figure of the overview's chart."""
    address.choose(chart=name)
    st.session_state[CHANGED] = True


def open_view(view: Requests | Whole) -> None:
    """A callback: opens a dialog over the page."""
    st.session_state[OPENED] = view
    st.session_state[CHANGED] = True


def open_session(session_id: str) -> None:
    """A callback: opens a session as a timeline, which is in the address."""
    address.choose(session=session_id)
    st.session_state[OPENED] = None
    st.session_state[CHANGED] = True


def session() -> str:
    """The id of the session to show; empty for none."""
    return address.choice().session


def requests_button(
    view: Requests,
    key: str,
    label: str = "Show requests",
    *,
    help: str | None = None,
    icon: str | None = REQUESTS,
) -> None:
    """Draws a button that opens requests."""
    locked = not who.may("analyst")
    st.button(
        label,
        key=key,
        icon=who.LOCK if locked else icon,
        help=LOCKED if locked else help,
        on_click=open_view,
        args=(view,),
        disabled=locked,
    )


def go(path: str) -> None:
    """A callback: opens the page at this address."""
    st.session_state[WANTED] = path
    st.session_state[CHANGED] = True


def close_view() -> None:
    """A callback: closes what is open; below the requests of a session that is the session."""
    if st.session_state.get(OPENED) is None:
        address.choose(session="")
    st.session_state[OPENED] = None


def opened() -> Requests | Whole | None:
    view: Requests | Whole | None = st.session_state.get(OPENED)
    return view


def show_result(key: str) -> None:
    """Shows the result of the last click once: its kind, error or success, and its text in the session."""
    kind, text = st.session_state.pop(key, ("", ""))
    if kind == "error":
        st.error(plain(text), icon=":material/error:")
    elif kind:
        st.success(plain(text), icon=":material/check:")


def apply() -> None:
    """Draws the whole page again if a click in a panel has changed what it shows."""
    if st.session_state.pop(CHANGED, False):
        st.rerun(scope="app")
