"""Goals: how many sessions reach them, when and from where; what people search for and download."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd
import streamlit as st

from tidemark.figures import goals, searches, sources
from tidemark.figures.comparison import Change
from tidemark.figures.declared import Goal
from tidemark.figures.reader import Reader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Filter, Selection
from tidemark.figures.silver import PEOPLE, REQUESTS
from tidemark.figures.text import clipped, shown

from .. import data
from ..charts.timechart import Kept, Timed, timechart
from ..controls import actions, compared
from ..controls.actions import filters_by, is_filter
from ..controls.grid import (
    TEXT_WIDTH,
    bar_column,
    change_column,
    count_column,
    grid_with_actions,
    percent_column,
    points_column,
    sheet,
    texts,
)
from ..filters import HOUR, Filters
from ..panel import EmptyError, Look, beside, meaning, nothing, panel, some, sql_of
from .sources import channel_name

REACHED = "silver/session_goals"
LISTED = 300
NAME_SHOWN = 60
MOST_LINES = 7
NONE_DECLARED = "No goal is declared yet."


def page(reader: Reader, filters: Filters) -> None:
    goals_panel(reader, filters)
    time_panel(reader, filters)
    channels_panel(reader, filters)
    beside(reader, filters, searches_panel, downloads_panel)


def described(goal: Goal) -> str:
    """A short description of a goal."""
    if goal.search:
        what = "any search"
    elif goal.download:
        what = f"download of {', '.join(each.lstrip('.') for each in goal.download)}"
    else:
        status = f"({goal.status})" if goal.status else ""
        what = " ".join(part for part in (goal.method, goal.path, status) if part)
    return f"{what} on {goal.site}" if goal.site else what


def _query(look: Look) -> str:
    """The query of the goals that are declared."""
    return sql_of(partial(goals.goals, declared=data.goals(look.reader)), look)


@panel("Goals", REACHED, help=meaning("goals"), query=_query)
def goals_panel(look: Look) -> None:
    declared, selection = data.goals(look.reader), look.selection(HOUR)
    mine = goals.of_site(declared, selection.site)
    if not mine:
        nothing(NONE_DECLARED)
        _define("Declare a goal")
        return
    changes = goals.changes(look.rows, selection, mine, look.extent, look.now)
    by_figure = {
        name: [each[name] for each in changes.values()] for name in ("conversions", "rate", "completions")
    }
    now = {name: [each.now for each in of_goals] for name, of_goals in by_figure.items()}
    points = [
        None if r.now is None or r.before is None else 100 * (r.now - r.before) for r in by_figure["rate"]
    ]
    most = max(n or 0 for n in now["conversions"])
    text, change = st.column_config.TextColumn, change_column(help=meaning("change"))
    table, settings = sheet(
        {
            "goal": (texts(changes, NAME_SHOWN), text("Goal")),
            "conversions": (now["conversions"], bar_column("Conversions", most, meaning("conversions"))),
            "change": (compared.ratios(by_figure["conversions"]), change),
            "rate": (now["rate"], percent_column("Rate", meaning("conversion_rate"), decimals=2)),
            "rate_change": (points, points_column("Change", "Of the rate, in percentage points.")),
            "completions": (now["completions"], count_column("Completions", meaning("completions"))),
            "completions_change": (compared.ratios(by_figure["completions"]), change),
            "what": (
                texts((described(mine[name]) for name in changes), LISTED),
                text("Reached by", width="medium"),
            ),
        }
    )
    filters = [filters_of(mine[name], selection.site) for name in changes]
    matching = [goals.matching(mine[name]) for name in changes]
    grid_with_actions(table, "goals", settings, filters, selection, rows=12, matching=matching)
    if words := compared.period_text(look, selection):
        st.caption(words)
    _define("Change goals")


def filters_of(goal: Goal, site: str | None) -> tuple[Filter, ...]:
    """Filters that keep what reaches a goal, on the page of a `site`; none where no filter does."""
    start, *others = goal.path.split("*")
    if goal.download or goal.site not in ("", site) or others not in ([], [""]) or (others and not start):
        return ()
    if goal.search:
        return (Filter("search_term", "is not", ("",)),)
    path = Filter("path", "starts with", (start,)) if others else is_filter("path", goal.path)
    method = (is_filter("method", goal.method),) if goal.method else ()
    status = (is_filter("status", goal.status),) if goal.status else ()
    return (path, *method, *status)


def _define(label: str) -> None:
    st.button(
        label,
        key="goals-define",
        type="tertiary",
        icon=":material/tune:",
        on_click=actions.go,
        args=("definitions",),
    )


@panel("Conversions over time", REACHED, help=meaning("conversions"), query=_query)
def time_panel(look: Look) -> None:
    span, selection = look.span(HOUR), look.selection(HOUR)
    mine = goals.of_site(data.goals(look.reader), selection.site)

    def by_name(each: Selection) -> pd.DataFrame:
        counts = goals.over_time(look.rows, each, mine, span.bin_seconds)
        wide = counts.pivot_table(
            index="bin", columns="name", values="conversions", aggfunc="sum", fill_value=0
        )
        return wide.reset_index()

    rows = some(by_name(selection), "No session of this range reached a goal." if mine else NONE_DECLARED)
    before = compared.over_time(look, compared.whole_hours(look, selection), span, by_name)
    counts = Timed(span, selection, rows, before)
    order = rows.drop(columns="bin").sum().sort_values(ascending=False, kind="stable")
    names = {str(name): shown(name) for name in order.index[:MOST_LINES]}
    kept: dict[str, Kept] = {shown(name): ((), goals.matching(mine[name])) for name in names}
    timechart(look, counts, names, unit=counts.per_bin("Conversions"), kept=kept)
    if len(order) > MOST_LINES:
        st.caption(f"The {MOST_LINES} goals with most conversions of {len(order)}.")


@panel("Conversions by channel", REACHED, help=meaning("conversion_rate"), figure=sources.sources)
def channels_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    mine = goals.of_site(data.goals(look.reader), selection.site)
    if not mine:
        raise EmptyError(NONE_DECLARED)
    chosen = st.selectbox("Goal", list(mine), key="goal", format_func=shown, bind="query-params", width=260)
    goal = mine[chosen if chosen in mine else next(iter(mine))]
    rows = some(goals.by_channel(look.rows, selection, chosen, goal), look=look)
    table = rows.assign(channel=[channel_name(c) for c in rows["channel"]])
    settings = {
        "channel": st.column_config.TextColumn("Channel"),
        "conversions": bar_column("Conversions", rows["conversions"].max(), meaning("conversions")),
        "sessions": count_column("Sessions", meaning("sessions")),
        "rate": percent_column("Rate", meaning("conversion_rate"), decimals=2),
    }
    filters = filters_by(rows, "channel")
    grid_with_actions(
        table, "goal-channels", settings, filters, selection, rows=12, where=goals.matching(goal)
    )


@panel(
    "Searches on the site",
    REQUESTS,
    help=meaning("searches"),
    requests=searches.SEARCHED,
    figure=searches.searches,
)
def searches_panel(look: Look) -> None:
    chosen = look.selection(HOUR)
    selection = searches.whole_days(chosen)
    rows = some(
        searches.searches(look.rows, selection, LISTED), "Nobody searched on the site in this range.", look
    )
    table = _with_change(look, selection, rows, "term", searches.searches_only)
    settings = {
        "term": st.column_config.TextColumn("Term", width=TEXT_WIDTH),
        "searches": bar_column("Searches", rows["searches"].max(), meaning("searches")),
        **_VISITORS_AND_CHANGE,
    }
    filters = [(is_filter("search_term", term),) for term in rows["term"]]
    grid_with_actions(table, "searches", settings, filters, selection, rows=10, where=searches.SEARCHED)
    if selection != chosen:
        st.caption("Of whole days (UTC).")


_VISITORS_AND_CHANGE = {
    "visitors": count_column("Visitors"),
    "before": count_column("Before"),
    "change": change_column(),
}


@panel("Downloads", REQUESTS, help=meaning("downloads"), figure=searches.downloads)
def downloads_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    extensions = searches.extensions(goals.of_site(data.goals(look.reader), selection.site))

    def before(rows: Rows, period: Selection) -> pd.Series[int]:
        return searches.downloads_only(rows, period, extensions)

    listed = some(
        searches.downloads(look.rows, selection, extensions, LISTED),
        "No file was downloaded in this range.",
        look,
    )
    table = _with_change(look, selection, listed, "path", before)
    settings = {
        "path": st.column_config.TextColumn("File", width=TEXT_WIDTH),
        "downloads": bar_column("Downloads", listed["downloads"].max(), meaning("downloads")),
        **_VISITORS_AND_CHANGE,
    }
    filters = filters_by(listed, "path")
    grid_with_actions(table, "downloads", settings, filters, selection, rows=10, where=(PEOPLE,))


def _with_change(
    look: Look,
    selection: Selection,
    rows: pd.DataFrame,
    by: str,
    figure: Callable[[Rows, Selection], pd.Series[int]],
) -> pd.DataFrame:
    """The table of counts by a text, with the same of the period compared with, if there is one."""
    table = rows.assign(**{by: [clipped(shown(text), LISTED) for text in rows[by]]})
    period = look.earlier(selection)
    if period is None:
        return table
    value = rows.columns[1]
    before = rows[by].map(figure(look.rows, period)).fillna(0).astype("int64")
    changes = [Change(now, then) for now, then in zip(rows[value], before, strict=True)]
    return table.assign(before=before, change=compared.ratios(changes))
