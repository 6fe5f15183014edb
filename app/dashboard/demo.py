"""The demo's first page: what this is, and what to try."""

from __future__ import annotations

import os
import shlex

import streamlit as st

from tidemark.figures.reader import Reader

_HIDDEN = "demo-hidden"


def is_demo() -> bool:
    """Whether `tidemark demo` has started this dashboard."""
    return bool(os.environ.get("TIDEMARK_DEMO"))


def intro(reader: Reader) -> None:
    """Explains the demo, if this is one, until it is hidden, which lasts as long as the browser's session."""
    if not is_demo() or st.session_state.get(_HIDDEN):
        return
    command = f"tidemark --home {shlex.quote(reader.label)}"
    with st.container(border=True, key="demo"):
        st.subheader("This is the demo", anchor=False)
        st.text(
            "The visits are generated: a week of the past, then live traffic. Everything else is real: the lines pass "
            "through Kafka and Spark into Delta tables, and this page reads the tables."
        )
        st.html(
            "The week has a newsletter campaign, a crawler's visit at night, a link to a page that does not exist, "
            "an afternoon of slow searches, and an outage. Find them: "
            '<a href="./?range=7d" target="_self">Overview of the last 7 days →</a>'
        )
        left, right = st.columns(2)
        left.text("Import a log of your own, then choose its site at the top of the page:")
        left.code(f"{command} import access.log --site mine", language=None)
        right.text("Kill the pipeline and watch the counts stay exact; end this demo first:")
        right.code(f"{command} demo --chaos", language=None)
        st.button("Hide", on_click=_hide, icon=":material/close:", type="tertiary")


def _hide() -> None:
    st.session_state[_HIDDEN] = True
