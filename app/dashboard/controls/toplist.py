"""The most frequent values of a field, each of them a button that filters by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures.comparison import Change
from tidemark.figures.counted import Counted
from tidemark.figures.text import clipped, plain, shown

from .. import colors
from ..panel import Look, nothing
from . import actions, compared

ROWS = 7
CHARACTERS = 80


def toplist(
    look: Look,
    frame: pd.DataFrame,
    field: str,
    value: str,
    *,
    column: str | None = None,
    heading: str,
    named: Callable[[Any], str] = str,
    rows: int = ROWS,
    whole: actions.Whole | None = None,
    counted: Counted | None = None,
    finest: int = 60,
) -> None:
    """Shows the first rows of a frame: `column` (default: `field`) and its count `value`.

    `named` is a value for people, `heading` says what is counted. `whole` opens all rows.
    With `counted`, each has its change against the earlier period; `finest` as for `Look.selection`."""
    if frame.empty:
        return nothing(look=look)
    top = frame.head(rows)
    changes: list[Change] = []
    if counted is not None:
        selection = look.selection(finest)
        changes = compared.of_rows(look, top, selection, counted)
    told = any(map(str, changes))
    most = max(float(top[value].max()), 1.0)
    color = colors.of([heading])[0]
    key = f"row-{look.key}"
    strength = "2e" if not colors.is_dark() else "38"
    bars = [
        f".st-key-{key}-{i} {{background: linear-gradient(to right, {color}{strength} {share:.1f}%, "
        f"transparent {share:.1f}%)}}"
        for i, share in enumerate(100 * top[value].astype(float) / most)
    ]
    st.html(f"<style>{''.join(bars)}</style>")
    with st.container(key=f"top-{look.key}", gap=None):
        with st.container(horizontal=True, key=f"{key}-head", gap="small"):
            st.caption(heading, text_alignment="right", width="stretch")
            if told:
                st.caption("Change", text_alignment="right", help=compared.help_of(look, selection), width=88)
        records: list[dict[str, Any]] = top.to_dict("records")  # type: ignore[assignment]
        for i, row in enumerate(records):
            change = changes[i].short if told else None
            _row(row, i, key, field, value, row[column or field], named, change)
    if whole is not None and len(frame) > rows:
        st.button(
            f"All {len(frame):,}" if len(frame) < 1000 else "All",
            key=f"whole-{look.key}",
            type="tertiary",
            icon=":material/open_in_full:",
            on_click=actions.open_view,
            args=(whole,),
        )
    return None


def _row(
    row: dict[str, Any], i: int, key: str, field: str, value: str, raw: Any, named: Callable[[Any], str],
    change: str | None,
) -> None:  # fmt: skip
    label = clipped(shown(named(raw)), CHARACTERS)
    with st.container(horizontal=True, key=f"{key}-{i}", vertical_alignment="center", gap="small"):
        st.button(
            plain(label) or "(none)",
            key=f"{key}-{i}-value",
            type="tertiary",
            help=plain(f"Filter: {actions.is_filter(field, raw)}"),
            on_click=actions.add_filter,
            args=(actions.is_filter(field, raw),),
            width="stretch",
        )
        st.markdown(f"{int(row[value]):,}", width="content")
        if change is not None:
            st.markdown(plain(change), text_alignment="right", width=72)
