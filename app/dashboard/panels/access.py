"""People, keys, shares, and the record of what they did: for admins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import pandas as pd
import streamlit as st

from tidemark.access.audit import COLUMNS, TABLE, What, newest
from tidemark.access.declared import access
from tidemark.access.door import Door
from tidemark.errors import InputError, TidemarkError
from tidemark.figures.reader import Reader
from tidemark.figures.right import EVERYTHING, ROLES, Right
from tidemark.figures.text import clipped, plain, shown

from .. import data, who
from ..controls import actions
from ..controls.grid import grid, time_column
from ..controls.sharing import EXPIRES, seconds
from ..filters import Filters
from ..panel import Look, panel, some

# Draws a part of the page: of a home, its database, and the sites on offer.
Part = Callable[[Path, Door, Sequence[str]], None]


def page(reader: Reader, filters: Filters) -> None:
    home = data.home(reader)
    if home is None or not who.administers():
        st.info("Only admins see this page, where the tables are in a home.", icon=who.LOCK)
        return
    parts: dict[str, Part] = {"People": _people, "Keys": _keys, "Shares": _shares}
    chosen = st.segmented_control(
        "Part",
        [*parts, "Record"],
        key="access",
        default="People",
        bind="query-params",
        required=True,
        label_visibility="collapsed",
    )
    if chosen == "Record":
        record_panel(reader, filters)
        return
    with st.container(border=True, key="panel-access"):
        st.markdown(f"##### {chosen}")
        actions.show_result("access-message")
        if secret := st.session_state.pop("access-secret", ""):
            st.code(secret, language=None)
        parts.get(str(chosen), _people)(home, who.door(home), sorted(data.extents(reader)))


def _people(home: Path, door: Door, sites: Sequence[str]) -> None:
    settings = access(home)
    for name, right in settings.people.items():
        if not who.covers(right):
            continue
        st.markdown(f"**{plain(name)}** · {plain(right.about)} · in {plain('[access.people]')}")
    people = [person for person in door.people.all() if who.covers(person.right)]
    for number, person in enumerate(people):
        remove = partial(_do, f"Removed {person.name}.", "person removed", person.name, door.people.remove)
        _entry(person.name, person.right.about, f"person-{number}", "Remove", remove)
    st.caption(
        plain(f"People log in by: {settings.login}.") + " Only people who log in by password are added here."
    )
    with (
        st.expander("New person", icon=":material/add:"),
        st.form("new-person", border=False, clear_on_submit=True),
    ):
        _named_right(ROLES, sites, "person")
        st.text_input("Password", type="password", key="person-password", autocomplete="new-password")
        st.form_submit_button("Add", on_click=_add_person, args=(door,))


def _keys(home: Path, door: Door, sites: Sequence[str]) -> None:
    keys = [key for key in door.keys.all() if who.covers(key.right)]
    for number, key in enumerate(keys):
        revoke = partial(_do, f"Revoked {key.name}.", "key revoked", key.name, door.keys.revoke)
        _entry(key.name, f"{key.right.about}, {_until(key.ends_at)}", f"key-{number}", "Revoke", revoke)
    with st.expander("New key", icon=":material/add:"), st.form("new-key", border=False):
        _named_right(ROLES[:2], sites, "key")
        st.selectbox("Ends after", EXPIRES, index=2, key="key-expires")
        st.form_submit_button("Make a key", on_click=_add_key, args=(door,))


def _shares(home: Path, door: Door, sites: Sequence[str]) -> None:
    shares = [share for share in door.shares.all() if who.covers(Right.of("viewer", [share.site]))]
    for number, share in enumerate(shares):
        revoke = partial(_do, f"Revoked {share.id}.", "share revoked", share.id, door.shares.revoke)
        _entry(share.id, f"{share.about}, {_until(share.ends_at)}", f"share-{number}", "Revoke", revoke)
    st.caption("Share at the top of a page makes a new one.")


@panel("Record of access", TABLE, help="The newest rows of quality.access.")
def record_panel(look: Look) -> None:
    names = [name for name, *_ in COLUMNS]
    entries = some(newest(look.rows), "Nothing yet.")
    table = pd.DataFrame(
        {name: [clipped(shown(value), 200) for value in entries[name]] for name in names[1:]}
    )
    table.insert(0, "time", look.wall(entries["time"]).to_numpy())
    labels = {name: st.column_config.TextColumn(name.capitalize()) for name in names[1:]}
    grid(table, "access-record", {"time": time_column("Time", look.filters.zone), **labels}, rows=12)


def _until(ends_at: datetime | None) -> str:
    return f"until {ends_at:%Y-%m-%d}" if ends_at else "no end"


def _entry(name: str, about: str, key: str, verb: str, act: Callable[[], None]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key=f"access-{key}"):
        st.markdown(f"**{plain(name)}** · {plain(about)}", width="stretch")
        sure = st.session_state.get("access-confirming") == key
        st.button(
            f"{verb} {plain(name)}?" if sure else verb,
            key=f"access-{key}-{verb}",
            type="secondary" if sure else "tertiary",
            help=None if sure else plain(f"{verb} {name}"),
            on_click=act if sure else partial(_ask, key),
        )


def _named_right(roles: Sequence[str], sites: Sequence[str], key: str) -> None:
    st.text_input("Name", key=f"{key}-name")
    st.selectbox("Role", roles, key=f"{key}-role")
    all_sites = "All sites" if who.covers(EVERYTHING) else "Choose sites"
    st.multiselect("Sites", sites, key=f"{key}-sites", placeholder=all_sites)


def _add_person(door: Door) -> None:
    state = st.session_state
    name, role, sites = state["person-name"], state["person-role"], tuple(state["person-sites"])

    def add(_: str) -> None:
        _require_covered(Right.of(role, sites))
        door.people.add(name, role, sites, state["person-password"])

    _do(f"Added {name}.", "person added", name, add)


def _add_key(door: Door) -> None:
    state = st.session_state
    name, role, sites = state["key-name"], state["key-role"], tuple(state["key-sites"])

    def add(_: str) -> None:
        _require_covered(Right.of(role, sites))
        state["access-secret"] = door.keys.add(name, role, sites, seconds(state["key-expires"]))

    _do(f"Made {name}. The key is shown this once:", "key made", name, add)


def _require_covered(right: Right) -> None:
    if not who.covers(right):
        raise InputError("you may only give rights for sites of yours", "Choose them from the list.")


def _do(message: str, what: What, name: str, act: Callable[[str], object]) -> None:
    """A callback: does something, records it, and says so. Only an admin's clicks reach it."""
    st.session_state.pop("access-confirming", None)
    if not who.administers():
        return
    try:
        act(name)
    except TidemarkError as error:
        st.session_state["access-message"] = ("error", str(error))
        return
    who.record(what, name)
    st.session_state["access-message"] = ("success", message)


def _ask(key: str) -> None:
    st.session_state["access-confirming"] = key
