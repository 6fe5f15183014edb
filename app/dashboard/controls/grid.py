"""Tables with a CSV download. Cells are drawn on a canvas as text, so no markup in them can act."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pandas as pd
import streamlit as st

from tidemark.figures.comparison import change_text
from tidemark.figures.query import Condition
from tidemark.figures.selection import Filter, Selection
from tidemark.figures.text import clipped, csv, shown

from . import actions, address

# A table shows this many rows before it scrolls.
ROWS_SHOWN = 10
ROW_HEIGHT = 33
# A first column of this width leaves room for a bar and its number on a phone.
TEXT_WIDTH = 150


@dataclass(frozen=True)
class Written:
    """A column of numbers that sorts by them and shows each as `text` has it."""

    column: Any
    text: Callable[[float], str]


def sheet(columns: Mapping[str, tuple[Any, Any]]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The frame of a grid and how its columns are shown, of the values and the setting of each column."""
    frame = pd.DataFrame({name: values for name, (values, _) in columns.items()})
    return frame, {name: setting for name, (_, setting) in columns.items()}


def texts(values: Iterable[Any], most: int) -> list[str]:
    """Values as texts of at most so many characters."""
    return [clipped(shown(value), most) for value in values]


def grid(
    frame: pd.DataFrame,
    name: str,
    columns: Mapping[str, Any] | None = None,
    *,
    rows: int = ROWS_SHOWN,
    download: pd.DataFrame | None = None,
    select: bool = False,
    chosen: int | None = None,
) -> int | None:
    """Shows a frame whose headings are its column names; `name` names the download and the widget.

    `columns` says how each is shown: a column of Streamlit's, or `Written`. Columns without any value or text are left
    out.
    `download` is what the file holds where that differs from what is shown. With `select`, rows can be selected, and
    the number of the selected one is returned; `chosen` is selected at first.
    """
    columns = columns or {}
    written = {name: each.text for name, each in columns.items() if isinstance(each, Written)}
    settings = {name: each.column if isinstance(each, Written) else each for name, each in columns.items()}
    shown_frame = frame.loc[:, [_has_values(frame[column]) for column in frame]] if len(frame) else frame
    height: int | Literal["content"] = "content" if len(frame) <= rows else int((rows + 1.5) * ROW_HEIGHT)
    selecting: dict[str, Any] = {"on_select": "rerun", "selection_mode": "single-row"} if select else {}
    if select and chosen is not None:
        selecting["selection_default"] = {"selection": {"rows": [chosen]}}
    event = st.dataframe(
        _styled(shown_frame, written),
        hide_index=True,
        width="stretch",
        height=height,
        row_height=ROW_HEIGHT,
        column_config=settings,
        key=f"grid-{name}",
        placeholder="",
        **selecting,
    )
    st.download_button(
        "CSV",
        # Made by a click. The browser asks for a file that is there already as soon as it sees the button, which the
        # record of access would take for a download.
        partial(_file, frame if download is None else download, written),
        file_name=f"{'_'.join((name, *address.choice().named))}.csv",
        mime="text/csv",
        key=f"csv-{name}",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
        help="Download this table. Cells that a spreadsheet would run as a formula are quoted.",
    )
    if not select:
        return None
    picked = [row for row in event["selection"]["rows"] if row < len(frame)]
    return picked[0] if picked else None


def _has_values(column: pd.Series) -> bool:
    return bool((column.notna() & (column.astype(object) != "")).any())


def _styled(frame: pd.DataFrame, written: Mapping[str, Callable[[float], str]]) -> Any:
    """The frame with texts in place of the numbers of some columns, where it has such columns."""
    formats: dict[Any, Any] = {name: text for name, text in written.items() if name in frame}
    return frame.reset_index(drop=True).style.format(formats, na_rep="") if formats else frame


def _file(frame: pd.DataFrame, written: Mapping[str, Callable[[float], str]]) -> bytes:
    return csv(_exported(frame, written))


def _exported(frame: pd.DataFrame, written: Mapping[str, Callable[[float], str]]) -> pd.DataFrame:
    """The frame with texts in place of infinite numbers, and whole numbers without decimals."""
    formats: dict[Any, Any] = {name: text for name, text in written.items() if name in frame}
    texts = {
        n: frame[n].astype(object).mask(frame[n] == math.inf, text(math.inf)) for n, text in formats.items()
    }
    # Counts that may be missing are floats.
    counts = [
        n for n in frame.select_dtypes("float") if n not in formats and (frame[n].dropna() % 1 == 0).all()
    ]
    return frame.astype(dict.fromkeys(counts, "Int64")).assign(**texts)


def grid_with_actions(
    frame: pd.DataFrame,
    name: str,
    columns: Mapping[str, Any] | None,
    filters: Sequence[tuple[Filter, ...]],
    selection: Selection,
    *,
    rows: int = ROWS_SHOWN,
    where: tuple[Condition, ...] = (),
    matching: Sequence[tuple[Condition, ...]] | None = None,
    download: pd.DataFrame | None = None,
) -> int | None:
    """A grid whose rows can be filtered by, with a click on their `value` (default: the first column), or opened down
    to their requests, where they are selected: those of `selection` that pass the row's `filters`, `where`, and the
    row's conditions in `matching`. The click opens the requests of a row that no filter keeps."""
    value = "value" if "value" in frame else frame.columns[0]

    def requests(row: int) -> actions.Requests:
        of_row = () if matching is None else matching[row]
        return actions.Requests(selection.having(*filters[row]), (*where, *of_row))

    def click() -> None:
        row = st.session_state[f"value-{name}"]["row"]
        if filters[row]:
            actions.add_filter(*filters[row])
        else:
            actions.open_view(requests(row))

    settings = {**(columns or {}), value: button_column(f"value-{name}", click, (columns or {}).get(value))}
    picked = grid(frame, name, settings, rows=rows, select=True, download=download)
    if picked is None:
        return None
    chosen = filters[picked]
    label = " and ".join(map(str, chosen)) or str(frame[value].iloc[picked])
    with st.container(horizontal=True, vertical_alignment="center", key=f"actions-{name}"):
        st.text(shown(clipped(label, 60)))  # no Markdown, which makes links of hosts
        if chosen:
            st.button(
                "Filter",
                key=f"filter-{name}",
                icon=":material/filter_alt:",
                on_click=actions.add_filter,
                args=chosen,
            )
        actions.requests_button(requests(picked), f"open-{name}")
    return picked


def button_column(key: str, click: Callable[[], None], column: Any = None) -> Any:
    """A column of texts that are buttons. `click` finds the row in the session's state under `key`."""
    settings = column or {}
    return st.column_config.ButtonColumn(
        settings.get("label"),
        width=settings.get("width"),
        help=settings.get("help"),
        type="tertiary",
        alignment="left",
        key=key,
        on_click=click,
    )


def count_column(label: str, help: str | None = None) -> Any:
    return st.column_config.NumberColumn(label, format="localized", help=help)


def bar_column(label: str, most: float, help: str | None = None) -> Any:
    """A count shown as a bar against the largest one."""
    return st.column_config.ProgressColumn(
        label, format="localized", min_value=0, max_value=max(float(most), 1.0), help=help
    )


def time_column(label: str, zone: str) -> Any:
    """A naive wall-clock time; the heading names its zone."""
    return st.column_config.DatetimeColumn(f"{label} ({zone})", format="YYYY-MM-DD HH:mm:ss")


def change_column(label: str = "Change", help: str | None = None) -> Written:
    """A change as a share, infinite where something is new."""
    # A format of Streamlit's would have no text for what is new.
    return Written(st.column_config.NumberColumn(label, width="small", help=help), change_text)


def points_column(label: str, help: str | None = None) -> Written:
    """A difference of shares in percentage points, with its sign."""
    return Written(st.column_config.NumberColumn(label, width="small", help=help), lambda n: f"{n:+.2f} pp")


def percent_column(label: str, help: str | None = None, decimals: int = 1) -> Written:
    """A share. Streamlit's own format has as many decimals as each number needs."""
    return Written(st.column_config.NumberColumn(label, help=help), lambda n: f"{n:.{decimals}%}")
