"""The page before there is any data."""

from __future__ import annotations

import shlex

import streamlit as st

from tidemark.figures.reader import Reader, ReadError

from . import demo, pulse
from .panel import LIVE, MINUTE

# A page has data if any of these tables has rows.
TABLES = ("gold/visitors_by_country", "gold/traffic", "silver/rejected", "quality/progress")


def has_data(reader: Reader) -> bool:
    """Whether any table exists. An unreadable one counts, because its panel shows the error."""
    for table in TABLES:
        try:
            if reader.version(table) is not None:
                return True
        except ReadError:
            return True
    return False


@st.fragment
def empty_state(reader: Reader) -> None:
    """Explains how to import data, and becomes the dashboard once there is some."""
    if has_data(reader):
        st.rerun(scope="app")
    pulse.follow(reader, "empty", TABLES, {}, LIVE, MINUTE)
    demo.intro(reader)
    with st.container(border=True, key="empty-state"):
        st.subheader("No data yet", anchor=False)
        if demo.is_demo():
            st.text("The pipeline is starting; the first figures come in some seconds.")
            return
        command = f"tidemark --home {shlex.quote(reader.label)}"
        st.text(f"There are no tables in {reader.label} so far. Any of these makes some:")
        st.text("Run the pipeline. It reads every line that is in Kafka and keeps following it:")
        st.code(f"{command} run", language=None, wrap_lines=True)
        st.text(
            "Import a log file of your own. Formats of Apache, nginx, Caddy, Traefik, IIS, CDNs and load balancers, "
            "and compressed files are detected:"
        )
        st.code(f"{command} import access.log", language=None, wrap_lines=True)
        st.text("Or watch generated traffic first; this starts all it needs:")
        st.code(f"{command} demo", language=None, wrap_lines=True)
        st.caption("This page looks again every 3 seconds.")
