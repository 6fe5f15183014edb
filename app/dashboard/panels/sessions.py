"""Sessions that started in the range: how many, how long, and the latest of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pandas as pd
import streamlit as st

from tidemark.figures import conditions, sessions
from tidemark.figures.comparison import Change
from tidemark.figures.query import Where
from tidemark.figures.reader import Reader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import SESSIONS, VIEW
from tidemark.figures.text import duration, number, percent

from .. import clock, country, data
from ..charts import basic, chartdata
from ..charts.timechart import Kept, timechart, timed
from ..controls import actions, compared, moved
from ..controls.actions import Requests
from ..controls.grid import Written, button_column, count_column, grid, sheet, texts
from ..filters import DAY, Filters
from ..panel import Look, beside, meaning, panel, some
from .countries import device_name
from .sources import channel_name

VIEWS = (VIEW,)
BOUNDS = (1, 10, 30, 60, 180, 600, 1800, 3600)
BUCKETS = ("0 s", "1–9 s", "10–29 s", "30–59 s", "1–3 min", "3–10 min", "10–30 min", "30–60 min", "1 h +")
LATEST = 200
PATH_SHOWN = 200


def page(reader: Reader, filters: Filters) -> None:
    summary_panel(reader, filters)
    beside(reader, filters, time_panel, duration_panel)
    latest_panel(reader, filters)


@panel("Summary", SESSIONS, requests=VIEWS, figure=sessions.summary)
def summary_panel(look: Look) -> None:
    selection = look.selection()
    summary, now, before = compared.figures(look, selection, lambda each: sessions.summary(look.rows, each))
    pages = "–" if summary.pages_per_session is None else f"{summary.pages_per_session:.1f}"
    closes = f"A session closes once its site's newest line is more than {_gap(look)} past its end."
    # A heading, the figure, its text, whether more is better, and what it means.
    shown_figures = (
        ("Sessions", "sessions", number(summary.sessions), True, meaning("sessions")),
        ("Open now", "", number(summary.sessions - summary.closed), None, closes),
        ("Median duration", "duration", duration(summary.duration), True, meaning("duration")),
        ("Bounce rate", "bounce_rate", percent(summary.bounce_rate), False, meaning("bounce_rate")),
        (
            "Pages per session",
            "pages_per_session",
            pages,
            True,
            "Pageviews of the sessions, by their number.",
        ),
        (
            "Their pageviews",
            "pageviews",
            number(summary.pageviews),
            True,
            "Pageviews of the sessions that started in the range, also those after it.",
        ),
    )
    also = moved.offers(look, selection, {name: name for name in ("sessions", "bounce_rate")})
    for cell, (label, name, text, better, help) in zip(st.columns(6), shown_figures, strict=True):
        change = Change(getattr(now, name, None), getattr(before, name, None))
        with cell:
            compared.metric(
                label,
                change,
                text,
                better,
                help,
                share=name == "bounce_rate",
                counts=name != "duration",
            )
            also(name)
    compared.caption_period(look, selection)


def _gap(look: Look) -> str:
    seconds = data.contract(look.reader, SESSIONS).number("gap_seconds")
    return "the session gap" if seconds is None else duration(seconds)


@panel("Sessions started", SESSIONS, requests=VIEWS, figure=partial(sessions.over_time, bin_seconds=DAY))
def time_panel(look: Look) -> None:
    def counted(rows: Rows, each: Selection, seconds: int) -> pd.DataFrame:
        counts = sessions.over_time(rows, each, seconds)
        return counts.assign(stayed=counts["sessions"] - counts["bounces"])

    counts = timed(look, counted)
    moved.offer(look, counts.selection, "sessions")
    names = {"stayed": "Two pages or more", "bounces": "Bounced"}
    kept: dict[str, Kept] = dict.fromkeys(names.values(), ((), VIEWS))
    timechart(look, counts, names, unit=counts.per_bin("Sessions"), kind="bar", kept=kept)


@panel("How long they last", SESSIONS, requests=VIEWS)
def duration_panel(look: Look) -> None:
    selection = look.selection()
    durations = some(sessions.durations(look.rows, selection, BOUNDS), look=look)
    counts = durations.set_index("bucket")["sessions"].reindex(range(len(BUCKETS)), fill_value=0)
    table = pd.DataFrame({"duration": BUCKETS, "sessions": counts.to_numpy()})
    words = "Sessions by duration: " + ", ".join(f"{d} {n:,}" for d, n in table.itertuples(index=False)) + "."
    chart = basic.columns(table, "duration", "sessions", "Duration", "Sessions", pick=True)
    columns = {"duration": st.column_config.TextColumn("Duration"), "sessions": count_column("Sessions")}
    marks = [{"label": name} for name in BUCKETS]

    def opens(row: int) -> Requests:
        least = Where("duration_seconds", ">=", (0, *BOUNDS)[row])
        below = () if row == len(BOUNDS) else (Where("duration_seconds", "<", BOUNDS[row]),)
        lines = [f for f in selection.filters if f.field not in conditions.OF_SESSION]
        # A session that started in the range may end after it.
        every = replace(selection, end=None, filters=tuple(lines))
        return Requests(every, (*VIEWS, sessions.during(selection, least, *below)))

    chartdata.draw(look, chart, words, table, columns, marks, opens)


@panel("Latest sessions", SESSIONS, requests=VIEWS)
def latest_panel(look: Look) -> None:
    rows = some(sessions.latest(look.rows, look.selection(), LATEST), look=look)

    def click() -> None:
        actions.open_session(rows["session_id"].iloc[st.session_state["session-at"]["row"]])

    text = st.column_config.TextColumn
    start = button_column("session-at", click, text(f"Start ({look.filters.zone})"))
    table, settings = sheet(
        {
            "start_time": ([clock.stamp(at, look.filters.zone) for at in rows["start_time"]], start),
            "site": (texts(rows["site"], PATH_SHOWN), text("Site", width="small")),
            "country": ([country.name(c) for c in rows["country"]], text("Country")),
            "duration_seconds": (
                rows["duration_seconds"],
                Written(st.column_config.NumberColumn("Duration"), duration),
            ),
            "pageviews": (rows["pageviews"], count_column("Pages")),
            "entry_page": (texts(rows["entry_page"], PATH_SHOWN), text("Entry page", width="medium")),
            "exit_page": (texts(rows["exit_page"], PATH_SHOWN), text("Exit page", width="medium")),
            "closed": (["closed" if c else "open" for c in rows["closed"]], text("State", width="small")),
            "browser": (texts(rows["browser"], PATH_SHOWN), text("Browser")),
            "os": (texts(rows["os"], PATH_SHOWN), text("OS")),
            "device": ([device_name(d or "") for d in rows["device"]], text("Device")),
            "channel": ([channel_name(c or "") for c in rows["channel"]], text("Channel")),
            "source": (texts(rows["source"], PATH_SHOWN), text("Source")),
            "referrer_host": (texts(rows["referrer_host"], PATH_SHOWN), text("Referrer")),
        }
    )
    picked = grid(table, "sessions-latest", settings, select=True)
    if picked is not None:
        st.button(
            "Open the session",
            key="open-session",
            icon=":material/route:",
            on_click=actions.open_session,
            args=(rows["session_id"].iloc[picked],),
        )
