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
from tidemark.figures.right import Role

LOCK = ":material/lock:"


def asking() -> Asking:
    """Who looks at this page. Without the guard, as where a script of a page runs by itself, everything is open only if
    nobody has to log in."""
    told = verified(st.context.headers.get(HEADER) or "")
    if told is not None:
        return told
    return OWNER if access(home_in(os.environ)).login == "none" else Asking("", NOTHING, "none")


def may(role: Role) -> bool:
    """Whether whoever looks has at least this role."""
    return asking().right.at_least(role)


def record(what: What, object: str = "") -> None:
    """Records what whoever looks has done; nothing where nobody has to log in."""
    found = asking()
    if found.how != "none":
        audit_of_home(home_in(os.environ)).record(found, what, object)


def administers() -> bool:
    """Whether whoever looks manages people, keys and shares. Where nobody has to log in there are none."""
    return asking().how != "none" and may("admin")


@st.cache_resource(show_spinner=False)
def door(home: Path) -> Door:
    """The people, keys and shares of a home."""
    return Door(home)


def account() -> None:
    """Says who looks, with the way out; nothing where nobody has to log in."""
    found = asking()
    if found.how == "none" or found.shared is not None:
        return
    with st.popover(found.name, icon=":material/person:"):
        st.text(found.right.about)
        if found.how in ("password", "oidc"):
            st.html('<a href="/logout" target="_self">Log out</a>')
