"""The most frequent values of a field, each of them a button that filters by it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures.comparison import Change
from tidemark.figures.counted import Counted
from tidemark.figures.selection import Filter
from tidemark.figures.text import clipped, shown

from .. import colors
from ..panel import Look, nothing
from . import actions, compared
from .grid import bar_column, count_column, grid_with_actions

ROWS = 7
CHARACTERS = 80
WHOLE_CHARACTERS = 200
# One component: a list of Streamlit's own elements has four for each row, which cost more than the rest of a page.
_list = st.components.v2.component(
    "tidemark_toplist",
    html='<div class="rows"><ol class="toplist"></ol></div>',
    js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def toplist(
    look: Look,
    frame: pd.DataFrame,
    field: str,
    value: str,
    *,
    heading: str = "",
    named: Callable[[Any], str] = str,
    rows: int = ROWS,
    whole: actions.Whole | None = None,
    more: Mapping[str, str] | None = None,
    counted: Counted | None = None,
    finest: int = 60,
) -> None:
    """Shows the first rows of a frame: the column `field` and its count `value`. A button opens all of them as
    a table, with the columns `more` (their headings by name), or it opens `whole`.

    `named` is a value for people, `heading` says what is counted, by default `value`.
    With `counted`, each has its change against the earlier period; `finest` as for `Look.selection`."""
    if frame.empty:
        return nothing(look=look)
    top, heading = frame.head(rows), heading or value.capitalize()
    changes: list[Change] = []
    if counted is not None:
        selection = look.selection(finest)
        changes = compared.of_rows(look, top, selection, counted)
    has_changes = any(map(str, changes))
    shares = 100 * top[value].astype(float) / max(float(top[value].max()), 1.0)
    records: list[dict[str, Any]] = top.to_dict("records")  # type: ignore[assignment]
    key = f"top-{look.key}"

    def add() -> None:
        actions.add_texts(str(st.session_state[key]["picked"]))

    _list(
        key=key,
        data={
            "label": look.title,
            "heading": heading,
            "changed": has_changes,
            "against": compared.help_of(look, selection) if has_changes else "",
            "color": colors.of([heading])[0] + ("38" if colors.is_dark() else "2e"),
            "rows": [
                {
                    "label": _label(named(row[field]), CHARACTERS),
                    "filter": str(actions.is_filter(field, row[field])),
                    "count": f"{int(row[value]):,}",
                    "change": changes[i].short if has_changes else "",
                    "share": f"{share:.1f}%",
                }
                for i, (row, share) in enumerate(zip(records, shares, strict=True))
            ],
        },
        on_picked_change=add,
    )
    if len(frame) > rows:
        body = functools.partial(
            _whole,
            of=look,
            frame=frame,
            field=field,
            labels=lambda: [_label(named(each), WHOLE_CHARACTERS) for each in frame[field]],
            filters=lambda: [(actions.is_filter(field, each),) for each in frame[field]],
            headings={value: heading, **(more or {})},
            counted=counted,
            finest=finest,
        )
        st.button(
            f"All {len(frame):,}" if len(frame) < 1000 else "All",
            key=f"whole-{look.key}",
            type="tertiary",
            icon=":material/open_in_full:",
            on_click=actions.open_view,
            args=(whole or actions.Whole(look.title, body),),
        )
    return None


def _label(name: str, characters: int) -> str:
    return clipped(shown(name), characters) or "(none)"


def _whole(
    look: Look,
    *,
    of: Look,
    frame: pd.DataFrame,
    field: str,
    labels: Callable[[], list[str]],
    filters: Callable[[], list[tuple[Filter, ...]]],
    headings: Mapping[str, str],
    counted: Counted | None,
    finest: int,
) -> None:
    """The table of all rows of the panel `of`: the `labels` of the field's values, and the counts under their
    `headings`, of which the first has the bars."""
    selection, count = look.selection(finest), next(iter(headings))
    table = frame[list(headings)].reset_index(drop=True)
    table.insert(0, "value", labels())
    columns = {name: count_column(heading) for name, heading in headings.items()}
    columns[count] = bar_column(headings[count], table[count].max())
    columns["value"] = st.column_config.TextColumn(field.replace("_", " ").capitalize(), width="large")
    if counted is not None:
        table.insert(2, "change", compared.ratios(compared.of_rows(look, frame, selection, counted)))
        columns["change"] = compared.column(look, selection)
    grid_with_actions(table, f"all-{of.key}", columns, filters(), selection, rows=14, where=of.requests)
