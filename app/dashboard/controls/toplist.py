"""The most frequent values of a field, each of them a button that filters by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures.comparison import Change
from tidemark.figures.counted import Counted
from tidemark.figures.text import clipped, shown

from .. import colors
from ..panel import Look, nothing
from . import actions, compared

ROWS = 7
CHARACTERS = 80
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
                    "label": clipped(shown(named(row[column or field])), CHARACTERS) or "(none)",
                    "filter": str(actions.is_filter(field, row[column or field])),
                    "count": f"{int(row[value]):,}",
                    "change": changes[i].short if has_changes else "",
                    "share": f"{share:.1f}%",
                }
                for i, (row, share) in enumerate(zip(records, shares, strict=True))
            ],
        },
        on_picked_change=add,
    )
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
