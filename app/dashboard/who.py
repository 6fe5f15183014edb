"""Who looks at a page, as the server's guard has decided."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from tidemark.access.asking import HEADER, OWNER, Asking, verified
from tidemark.access.audit import What, audit_of_home
from tidemark.access.declared import access
from tidemark.access.door import NOTHING, Door
from tidemark.figures.declared import home_in
from tidemark.figures.right import Right, Role

LOCK = ":material/lock:"


def asking() -> Asking:
    """Who looks at this page. Without the guard, as where a script of a page runs by itself, everything is open only if
    nobody has to log in."""
    signed = verified(st.context.headers.get(HEADER) or "")
    if signed is not None:
        return signed
    return OWNER if access(home_in(os.environ)).login == "none" else Asking("", NOTHING, "none")


def may(role: Role) -> bool:
    """Whether the viewer has at least this role."""
    return asking().right.at_least(role)


def record(what: What, object: str = "") -> None:
    """Records an action of the viewer; does nothing if no login is required."""
    asking_now = asking()
    if asking_now.how != "none":
        audit_of_home(home_in(os.environ)).record(asking_now, what, object)


def administers() -> bool:
    """Whether the viewer manages people, keys and shares. False if no login is required."""
    return asking().how != "none" and may("admin")


def covers(right: Right) -> bool:
    """Whether a right is only for sites of the viewer, who may neither give nor take away any other."""
    return asking().right.covers(right)


@st.cache_resource(show_spinner=False)
def door(home: Path) -> Door:
    """The people, keys and shares of a home."""
    return Door(home)


def account() -> None:
    """Says who looks, with the way out; nothing where nobody has to log in."""
    person = asking()
    if person.how == "none" or person.shared is not None:
        return
    with st.popover(person.name, icon=":material/person:"):
        st.text(person.right.about)
        if person.how in ("password", "oidc"):
            st.html('<a href="/logout" target="_self">Log out</a>')
