"""The sections of the dashboard and the pages of the present one, as links that keep the choices of the bar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from . import address

FIGURES = "figures"
_groups = st.components.v2.component(
    "tidemark_groups",
    js=Path(__file__).with_name("groups.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def draw(pages: Sequence[tuple[str, StreamlitPage]], current: StreamlitPage) -> None:
    """Draws a row of the sections, each of which leads to its first page, and a row of the pages of the present one.

    `pages` are all pages with their sections.
    """
    present = next(section for section, page in pages if page is current)
    query = address.link()
    with st.container(horizontal=True, wrap=False, key="sections", gap=None):
        for section in dict.fromkeys(section for section, _ in pages):
            page = next(page for of, page in pages if of == section)
            with st.container(width="content", key=f"section-{'on' if section == present else section}"):
                st.page_link(page, label=section, query_params=query)
    mine = [page for section, page in pages if section == present]
    if len(mine) > 1:
        with st.container(horizontal=True, wrap=False, key="pages", gap=None):
            for page in mine:
                with st.container(width="content", key=f"page-{'on' if page is current else page.url_path}"):
                    st.page_link(page, query_params=query)


def skip_link() -> None:
    """A link to the figures, which shows when it has the focus."""
    st.html(f'<a class="skip" href="#{FIGURES}">Skip to figures</a>')


def landmark() -> None:
    """Where that link leads."""
    st.html(f'<div id="{FIGURES}" tabindex="-1"></div>')


def groups() -> None:
    """Makes each group of links or buttons one stop of the Tab key, within which the arrows move."""
    _groups(key="groups")
