"""The dialog with one session as a timeline, which has an address of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from html import escape

import pandas as pd
import streamlit as st

from tidemark.figures import timeline
from tidemark.figures.query import Where
from tidemark.figures.silver import SESSIONS
from tidemark.figures.text import clipped, duration, plain, several, shown
from tidemark.figures.timeline import Timeline

from .. import clock, country, data
from ..panel import Look, nothing
from . import actions

PATH_SHOWN = 160
# A gap of this many seconds is marked as a break.
LONG = 300


def body(look: Look) -> None:
    """Draws the session of the address."""
    gap = timedelta(seconds=data.contract(look.reader, SESSIONS).number("gap_seconds") or 1800)
    steps_of = timeline.timeline(look.rows, actions.session(), data.goals(look.reader), gap)
    if steps_of is None:
        return nothing("There is no such session any more.")
    _head(look, steps_of)
    st.html(_list(look, steps_of.steps))
    session = steps_of.session
    lines = replace(look.filters, site=session["site"], conditions=()).selection(look.span())
    same = (Where("site", "=", session["site"]), Where("visitor_id", "=", session["visitor_id"]))
    end = (session["end_time"] + gap).to_pydatetime()
    bounds = lines.shifted(session["start_time"].to_pydatetime(), end)
    actions.requests_button(actions.Requests(bounds, same), "timeline-requests", "Show its requests")
    _others(look, steps_of.others)
    return None


def _head(look: Look, steps_of: Timeline) -> None:
    session, zone = steps_of.session, look.filters.zone
    source = session["source"] or session["referrer_host"] or "no referrer"
    parts = [
        session["site"],
        clock.stamp(session["start_time"], zone) + f" {zone}",
        duration(session["duration_seconds"]),
        several(session["pageviews"], "pageview"),
        f"{session['channel'] or 'direct'} ({source})",
        country.name(session["country"]),
        session["device"] or "",
        f"{session['browser'] or '?'} on {session['os'] or '?'}",
        "" if session["closed"] else "still open",
    ]
    st.caption(" · ".join(plain(shown(part)) for part in parts if part))


def _list(look: Look, steps: pd.DataFrame) -> str:
    names = ["event_time", "method", "path", "query", "status", "gap", "files", "goals"]
    rows = []
    for time, method, page, query, status, gap, files, goals in steps[names].itertuples(
        index=False, name=None
    ):
        path = clipped(shown(page + (f"?{query}" if query else "")), PATH_SHOWN)
        marks = [f"<b class='goal'>goal {escape(shown(name))}</b>" for name in goals]
        if status >= timeline.FAILED:
            marks.append(f"<b class='failed'>{status}</b>")
        if method != "GET":
            marks.append(f"<i>{escape(shown(method))}</i>")
        if files:
            marks.append(f"<i>{several(files, 'file')}</i>")
        late = " class='late'" if gap >= LONG else ""
        rows.append(
            f"<li{late}><time>{clock.stamp(time, look.filters.zone)[11:]}</time>"
            f"<span class='gap'>{'' if pd.isna(gap) else f'+{duration(round(gap))}'}</span>"
            f"<code>{escape(path)}</code>{' '.join(marks)}</li>"
        )
    return f"<ol class='timeline'>{''.join(rows)}</ol>"


def _others(look: Look, others: pd.DataFrame) -> None:
    if others.empty:
        return nothing("No other session of this visitor.")
    st.markdown(f"###### Other sessions of this visitor: {len(others):,}")
    names = ["session_id", "start_time", "duration_seconds", "pageviews", "entry_page"]
    for number, row in enumerate(others[names].itertuples(index=False, name=None)):
        session_id, start, seconds, views, entry = row
        text = (
            f"{clock.stamp(start, look.filters.zone)} · {duration(seconds)} · {several(views, 'pageview')} · "
            f"{clipped(shown(entry), 60)}"
        )
        st.button(
            plain(text),
            key=f"other-session-{number}",
            type="tertiary",
            on_click=actions.open_session,
            args=(session_id,),
        )
    return None
