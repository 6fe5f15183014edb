"""The dialog that shares a page, for admins."""

from __future__ import annotations

import functools
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st

from tidemark.access.shares import PAGES, Share
from tidemark.errors import TidemarkError
from tidemark.figures.declared import duration
from tidemark.figures.text import plain

from .. import who
from ..panel import Look, nothing
from . import actions

NEVER = "never"
EXPIRES = ("7d", "30d", "90d", "365d", NEVER)


def offer(home: Path | None, page: str) -> None:
    """A button that opens the dialog, if the viewer may share the page."""
    if home is None or page not in PAGES or not who.administers():
        return
    view = actions.Whole("Share this page", functools.partial(form, home=home, page=page))
    st.button("Share", icon=":material/share:", type="tertiary", on_click=actions.open_view, args=(view,))


def seconds(expires: str) -> float | None:
    """A chosen time in seconds; None for no end. Raises SelectionError."""
    return None if expires == NEVER else duration(expires).total_seconds()


def form(look: Look, *, home: Path, page: str) -> None:
    """The dialog's inside."""
    state = st.session_state
    site, filters = look.filters.site, tuple(map(str, look.filters.conditions))
    if site is None or not who.asking().right.has_site(site):
        return nothing("Choose a site first: a share shows one.")
    st.text(
        f"Whoever has the address sees this page of {', '.join((site, *filters))}, as a viewer, and nothing else."
    )
    if link := state.pop("share-made", ""):
        st.text("The address is shown this once:")
        st.code(link, language=None)
        st.text(state.pop("share-caveat", ""))
    if message := state.pop("share-said", ""):
        st.error(plain(message), icon=":material/error:")
    with st.form("share", border=False):
        st.text_input(
            "Password", type="password", key="share-password", placeholder="none", autocomplete="new-password"
        )
        st.selectbox("Ends after", EXPIRES, index=1, key="share-expires")
        st.checkbox("It may stand in a frame of other pages", key="share-embed")
        st.text_input("Only of these", key="share-origins", placeholder="https://blog.example")
        st.form_submit_button("Make an address", on_click=_make, args=(home, page, site, filters))
    return None


def _make(home: Path, page: str, site: str, filters: tuple[str, ...]) -> None:
    state, door = st.session_state, who.door(home)
    if not who.administers() or not who.asking().right.has_site(site):
        return
    try:
        password = door.people.hashed(state["share-password"]) if state["share-password"] else ""
        origins = str(state["share-origins"]).replace(",", " ").split()
        share = Share.of(site, page, filters, password, embed=bool(state["share-embed"]), embed_in=origins)
        token = door.shares.add(share, seconds(state["share-expires"]))
    except TidemarkError as error:
        state["share-said"] = str(error)
        return
    who.record("share made", f"{page} of {site}")
    address = urlsplit(st.context.url or "")
    state["share-caveat"] = "" if address.scheme == "https" else share.over_https_only
    state["share-made"] = (
        f"{address.scheme}://{address.netloc}/share/{token}" if address.netloc else f"/share/{token}"
    )
