"""Definitions: goals, funnels, segments, alerts and own hosts of the settings file, to look at and to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from tidemark.errors import SettingError
from tidemark.figures import notes
from tidemark.figures.declared import FILE, GOAL, Declared, Kind, declared, of_right
from tidemark.figures.reader import Reader, ReadError
from tidemark.figures.selection import SelectionError
from tidemark.figures.text import plain, shown

from .. import data, who
from ..controls import actions, forms, preview
from ..controls.edit import save, why_fixed
from ..controls.forms import Field
from ..filters import Filters
from ..panel import Look, panel, some

CHANGES_SHOWN = 10


@dataclass(frozen=True)
class Part:
    """A kind of definitions: what it is called, its fields, what it is for, and what a change of it does."""

    kind: Kind
    one: str
    fields: tuple[Field, ...]
    about: str
    applied: str


# The key of the form that was not saved, and why; and of the one to preview, and what it has.
FAILED = "definitions-failed"
PREVIEW = "definitions-preview"
PARTS = {
    "Goals": Part(
        "goals", "goal", forms.GOAL,
        "Requests of people that you want: a page, a download or a search. A session with at least one converts.",
        "A running pipeline takes it over within seconds, counts the goal's whole history again, and notes what that"
        " changed. Meanwhile the Goals page counts it from requests.",
    ),
    "Funnels": Part(
        "funnels", "funnel", forms.FUNNEL,
        "Pages that follow each other, and who goes on to the next.",
        "Funnels are counted when they are shown, so a change applies at once to all history.",
    ),
    "Segments": Part(
        "segments", "segment", forms.SEGMENT,
        "Named filters. Add in the filter bar offers them, and saves the present filters as one.",
        "A change applies at once.",
    ),
    "Alerts": Part(
        "alerts", "alert", forms.ALERT,
        "Rules by which a figure of a site raises an alert.",
        "A running pipeline applies it within seconds.",
    ),
    "Own hosts": Part(
        "sites", "site", forms.HOSTS,
        "Hosts of your own: referrers of one of them are internal, and sessions that begin with one direct.",
        "A running pipeline reads new lines by it within seconds, then applies it to all history, and notes what that"
        " changed. Meanwhile the Pipeline page shows how far it is.",
    ),
}  # fmt: skip


def page(reader: Reader, filters: Filters) -> None:
    chosen = st.segmented_control(
        "Kind",
        list(PARTS),
        key="definitions",
        default="Goals",
        bind="query-params",
        required=True,
        label_visibility="collapsed",
    )
    part = PARTS.get(str(chosen), PARTS["Goals"])
    home = data.home(reader)
    with st.container(border=True, key="panel-definitions"):
        st.markdown(f"##### {chosen or 'Goals'}", help=part.about)
        try:
            if home is None:
                _elsewhere(reader, part)
                return
            known = of_right(declared(home), who.asking().right)
        except (SettingError, ReadError) as error:
            st.warning(plain(str(error)), icon=":material/error:")
            return
        fixed = why_fixed(home)
        actions.show_result("definitions-message")
        _listed(reader, home, part, known, fixed)
        if fixed:
            st.info(plain(f"This page only shows the settings: {fixed}."), icon=":material/lock:")
        else:
            st.caption(plain(f"Written to {home / FILE}.") + " " + part.applied)
    if part.kind in ("goals", "sites"):
        changes_panel(reader, filters)


def _elsewhere(reader: Reader, part: Part) -> None:
    """Tables in a catalog come without the settings file."""
    known = data.goals(reader) if part.kind == "goals" else {}
    for name, goal in known.items():
        st.markdown(f"**{plain(name)}** · {plain(forms.summary(part.fields, goal.declared))}")
    st.info(
        f"The tables are not in a home of this machine, so the settings cannot be changed here. Change `{FILE}` in the "
        "home of the pipeline, and deploy it again.",
        icon=":material/lock:",
    )


def _listed(reader: Reader, home: Path, part: Part, known: Declared, fixed: str) -> None:
    tables, sites = known.of(part.kind), _sites(reader)
    names = sorted({*tables, *sites}) if part.kind == "sites" else sorted(tables)
    if not names:
        st.text(f"No {part.one} is declared yet.")
    taken = {"site": sites, "metric": [f"{GOAL}{name}" for name in sorted(known.of("goals"))]}
    for number, name in enumerate(names):
        _entry(reader, home, part, name, tables.get(name, {}), taken, number, fixed)
    if not fixed:
        version = st.session_state.get("definitions-saved", 0)
        key = f"def-{part.kind}-new{version}"
        with st.expander(f"New {part.one}", icon=":material/add:", expanded=not names or _open(key)):
            _form(reader, home, part, None, {}, taken, key)


def _entry(
    reader: Reader,
    home: Path,
    part: Part,
    name: str,
    values: Mapping[str, Any],
    taken: Mapping[str, Sequence[str]],
    number: int,
    fixed: str,
) -> None:
    key = f"def-{part.kind}-{number}"
    summary = forms.summary(part.fields, values) or ("none" if part.kind == "sites" else "")
    if fixed:
        st.markdown(f"**{plain(name)}** · {plain(summary)}")
        return
    form = f"{key}-{st.session_state.get('definitions-saved', 0)}"
    with st.expander(f"**{plain(name)}** · {plain(summary)}", expanded=_open(form)):
        _form(reader, home, part, name, values, taken, form)
        if part.kind == "sites" or not values:
            return
        if st.session_state.get("definitions-confirming") == (part.kind, name):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.text(f"Remove {part.one} {shown(name)}?")
                st.button("Remove", key=f"{key}-sure", on_click=_remove, args=(home, part, name))
                st.button("Keep", key=f"{key}-keep", on_click=_ask, args=(None,))
        else:
            st.button(
                f"Remove {part.one}",
                key=f"{key}-remove",
                on_click=_ask,
                args=((part.kind, name),),
                type="tertiary",
                icon=":material/delete:",
            )


def _form(
    reader: Reader,
    home: Path,
    part: Part,
    name: str | None,
    values: Mapping[str, Any],
    taken: Mapping[str, Sequence[str]],
    key: str,
) -> None:
    with st.form(key, border=False):
        if name is None:
            st.text_input("Name", key=f"{key}-name", placeholder="signup" if part.kind == "goals" else "")
        forms.draw(part.fields, values, key, taken)
        failed, previewed = _of_form(FAILED, key), _of_form(PREVIEW, key)
        if failed:
            st.error(plain(failed), icon=":material/error:")
        elif previewed:
            _preview(reader, home, part, previewed)
        with st.container(horizontal=True):
            st.form_submit_button("Save", on_click=_save, args=(home, part, name, values, key))
            if part.kind in preview.PREVIEWED:
                st.form_submit_button(
                    "Preview",
                    on_click=_ask_preview,
                    args=(part, values, key),
                    type="tertiary",
                    help="Count what this matches, without saving it.",
                )


def _of_form(kind: str, key: str) -> Any:
    """The value that the session keeps of this kind for the form of this key; None if it is for another form."""
    entry: tuple[str, Any] = st.session_state.get(kind, ("", None))
    return entry[1] if entry[0] == key else None


def _open(key: str) -> bool:
    """Whether the form was not saved, or is previewed: it stays open."""
    return any(_of_form(kind, key) for kind in (FAILED, PREVIEW))


def _ask_preview(part: Part, values: Mapping[str, Any], key: str) -> None:
    """A callback: shows what the form's values match, or why they match nothing."""
    state = st.session_state
    state.pop(FAILED, None)
    new = forms.read(part.fields, values, key)
    try:
        _require_paths(part.kind, new)
    except SettingError as error:
        state[FAILED] = (key, str(error))
    else:
        state[PREVIEW] = (key, new)


def _preview(reader: Reader, home: Path, part: Part, values: Mapping[str, Any]) -> None:
    with st.spinner("Counting …"):
        try:
            rows, extent = data.rows_of(reader), data.extent(reader, None)
            words = preview.words(rows, part.kind, values, declared(home), extent)
        except (SettingError, ReadError) as error:
            st.error(plain(str(error)), icon=":material/error:")
        else:
            st.info(plain(words), icon=":material/visibility:")


def _require_paths(kind: str, values: Mapping[str, Any]) -> None:
    """Raises SelectionError for a path that no request has."""
    paths = (
        [values.get("path", "")] if kind == "goals" else values.get("steps", ()) if kind == "funnels" else []
    )
    for path in paths:
        if path and not path.startswith(("/", "*", GOAL)):
            raise SelectionError(f"the path {path!r} matches nothing; begin it with / or *")


def _save(home: Path, part: Part, name: str | None, values: Mapping[str, Any], key: str) -> None:
    state = st.session_state
    given = str(state.get(f"{key}-name", "")).strip() if name is None else name
    try:
        if name is None and given in declared(home).of(part.kind):
            raise SelectionError(f"there is already a {part.one} {given!r}; open it to change it")
        new = forms.read(part.fields, values, key)
        _require_paths(part.kind, new)
        save(home, part.kind, given, new or (None if part.kind == "sites" else new))
    except SettingError as error:
        state[FAILED] = (key, f"Not saved: {error}")
        return
    state.pop(FAILED, None)
    state.pop(PREVIEW, None)
    state["definitions-message"] = ("success", f"Saved {part.one} {given}.")
    state["definitions-saved"] = state.get("definitions-saved", 0) + 1


def _ask(what: tuple[str, str] | None) -> None:
    st.session_state["definitions-confirming"] = what


def _remove(home: Path, part: Part, name: str) -> None:
    _ask(None)
    try:
        save(home, part.kind, name, None)
    except SettingError as error:
        st.session_state["definitions-message"] = ("error", f"Not removed: {error}")
    else:
        st.session_state["definitions-message"] = ("success", f"Removed {part.one} {name}.")


def _sites(reader: Reader) -> list[str]:
    """The sites with lines. Empty if they cannot be read, which the page's head reports."""
    try:
        return sorted(data.extents(reader))
    except ReadError:
        return []


@panel(
    "What changes of settings did",
    notes.TABLE,
    help="Noted by the pipeline, and marked in charts over time.",
)
def changes_panel(look: Look) -> None:
    changes = notes.notes(look.rows)
    changes = some(
        changes[changes["cause"].isin(["settings", "rules"])].iloc[::-1].head(CHANGES_SHOWN),
        "Nothing yet. Once a goal or own hosts are changed, the pipeline notes the effect here.",
    )
    zone = look.filters.zone
    times = look.wall(changes["time"]).dt.strftime("%Y-%m-%d %H:%M")
    for at, text in zip(times, changes["text"], strict=True):
        st.text(f"{at} ({zone})  {shown(text)}")
