"""The demo's line on the first pages: what this is, and what to try."""

from __future__ import annotations

import os
import shlex

import streamlit as st

from tidemark.figures.reader import Reader

from .controls import address

HIDDEN = "hidden"


def is_demo() -> bool:
    """Whether `tidemark demo` has started this dashboard."""
    return bool(os.environ.get("TIDEMARK_DEMO"))


def intro(reader: Reader) -> None:
    """Explains the demo in one line, if this is one, until it is hidden, which the address keeps."""
    if not is_demo() or address.choice().demo == HIDDEN:
        return
    command = f"tidemark --home {shlex.quote(reader.label)}"
    with st.container(horizontal=True, vertical_alignment="center", key="demo", gap="small"):
        st.text("Demo: generated visits, a real pipeline.", width="content")
        st.html('<a href="./?range=7d" target="_self">Find the week\'s stories →</a>', width="content")
        with st.popover("Try", type="tertiary", width="content"):
            st.text(
                "A week of the past, then live traffic. The lines pass through Kafka and Spark into Delta tables, and "
                "this page reads the tables. The week has a newsletter campaign, a crawler's visit at night, a link to "
                "a page that does not exist, an afternoon of slow searches, and an outage."
            )
            st.text("Import a log of your own, then choose its site at the top of the page:")
            st.code(f"{command} import access.log --site mine", language=None, wrap_lines=True)
            st.text("Kill the pipeline and watch the counts stay exact; end this demo first:")
            st.code(f"{command} demo --chaos", language=None, wrap_lines=True)
        st.button(
            "Hide",
            on_click=address.choose,
            kwargs={"demo": HIDDEN},
            icon=":material/close:",
            type="tertiary",
            key="hide-demo",
        )
