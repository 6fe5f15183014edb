"""The notes of a site, and a form that adds and removes them."""

from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import streamlit as st

from tidemark.figures import calendar, notes
from tidemark.figures.text import clipped, plain, shown

from .. import data, who
from ..controls import noting
from ..controls.grid import grid, sheet, texts, time_column
from ..panel import Look, panel, some

ALL_SITES = "All sites"
TEXT_SHOWN = 300
CAUSES = {
    "hand": "by hand", "rebuild": "rebuild", "settings": "changed settings", "forget": "deleted visitor",
    "rules": "other rules", "import": "imported archive", "gap": "gap of the pipeline",
}  # fmt: skip


@panel(
    "Notes",
    notes.TABLE,
    help="Marks of all charts over time: notes by hand, and those that Tidemark makes about itself.",
    figure=lambda rows, selection: notes.notes(rows, selection.site),
)
def notes_panel(look: Look) -> None:
    selection = look.selection()
    listed = notes.notes(look.rows, look.filters.site, selection.start, selection.end)
    listed = listed.iloc[::-1].reset_index(drop=True)
    home = noting.home_to_write(look.reader)
    if home is not None:
        _form(look, home)
    some(listed, "No note in this range.")
    text = st.column_config.TextColumn
    table, columns = sheet(
        {
            "time": (look.wall(listed["time"]), time_column("Time", look.filters.zone)),
            "site": ([shown(v) or ALL_SITES for v in listed["site"]], text("Site")),
            "text": (texts(listed["text"], TEXT_SHOWN), text("Note", width="large")),
            "cause": (
                [CAUSES.get(v, v) for v in listed["cause"]],
                text("Made", help="By hand, or by Tidemark, about what it names."),
            ),
        }
    )
    picked = grid(table, "notes", columns, rows=8, select=home is not None)
    if picked is not None and home is not None:
        _remover(home, listed.iloc[picked])


def _form(look: Look, home: Path) -> None:
    zone = look.filters.zone
    with (
        st.popover("Add a note", icon=":material/add:"),
        st.form("add-note", clear_on_submit=True, border=False),
    ):
        text = st.text_input("Note", max_chars=notes.MOST_CHARACTERS, placeholder="Sale begins")
        local = look.now.astimezone(ZoneInfo(zone)).replace(tzinfo=None, second=0, microsecond=0)
        at = st.datetime_input(f"When ({zone})", local, step=timedelta(minutes=1), key="note-at")
        every = [ALL_SITES] if who.asking().right.has_site(None) else []
        sites = [*every, *sorted(data.extents(look.reader))]
        chosen = sites.index(look.filters.site) if look.filters.site in sites else 0
        site = st.selectbox("Site", sites, index=chosen)
        if not st.form_submit_button("Add"):
            return
    time = calendar.utc(at, zone) if at else look.now.astimezone(UTC)
    site = "" if site in (ALL_SITES, None) else site
    _done(noting.add(home, text, time, site) if text.strip() else "Write what happened.")


def _remover(home: Path, row: pd.Series) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="actions-notes"):
        st.text(clipped(shown(row["text"]), 60))
        if st.button("Remove", key="remove-note", icon=":material/delete:"):
            _done(noting.remove(home, row["note"]))


def _done(trouble: str) -> None:
    if trouble:
        st.error(plain(trouble), icon=":material/error:")
    else:
        st.rerun()  # the charts of the page have the notes, too
