"""Tables with a CSV download. Cells are drawn on a canvas as text, so no markup in them can act."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from .text import csv

# A table shows this many rows before it scrolls.
ROWS_SHOWN = 10
ROW_HEIGHT = 33


def grid(
    frame: pd.DataFrame,
    name: str,
    columns: dict[str, Any] | None = None,
    *,
    rows: int = ROWS_SHOWN,
    download: pd.DataFrame | None = None,
) -> None:
    """Shows a frame whose headings are its column names; `name` names the download and the widget.

    Columns without any value are left out. `download` is what the file holds where that differs from
    what is shown.
    """
    height: int | str = "content" if len(frame) <= rows else int((rows + 1.5) * ROW_HEIGHT)
    st.dataframe(
        frame.dropna(axis="columns", how="all") if len(frame) else frame,
        hide_index=True,
        width="stretch",
        height=height,
        row_height=ROW_HEIGHT,
        column_config=columns,
        key=f"grid-{name}",
    )
    st.download_button(
        "CSV",
        csv(frame if download is None else download),
        file_name=f"{name}.csv",
        mime="text/csv",
        key=f"csv-{name}",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
        help="Download this table. Cells that a spreadsheet would run as a formula are quoted.",
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


def percent_column(label: str, help: str | None = None) -> Any:
    return st.column_config.NumberColumn(label, format="percent", help=help)
