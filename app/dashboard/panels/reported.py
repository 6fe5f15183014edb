"""As reported: what the figures of days were when they were reported, what they are now, and what changed them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import streamlit as st

from tidemark.figures import calendar, reported
from tidemark.figures.comparison import Change
from tidemark.figures.reader import Reader
from tidemark.figures.selection import Selection
from tidemark.figures.text import clipped, number, plain, shown

from .. import clock
from ..charts.timechart import over_time
from ..controls.grid import change_column, grid, sheet, time_column
from ..filters import Filters
from ..panel import EmptyError, Look, meaning, metrics, panel, some

AS_OF, CHANGED, METRIC, WHICH = "as-of", "changed-only", "reported-metric", "reported-which"
FIRST, AT = "First reports", "Reports at a time"
NAMES = {
    "requests": "Requests", "pageviews": "Pageviews", "visitors": "Visitors", "sessions": "Sessions",
    "bounce_rate": "Bounce rate",
}  # fmt: skip
DAY = 86_400
NOTE_SHOWN = 200
NONE = "No day of this range has been reported yet: a day is, an hour after its end (UTC). Choose a longer range."


def page(reader: Reader, filters: Filters) -> None:
    state = st.session_state
    # A time in the address asks for it.
    state.setdefault(WHICH, AT if AS_OF in st.query_params else FIRST)
    with st.container(horizontal=True, vertical_alignment="bottom", key="as-reported"):
        which = st.segmented_control(
            "Compare now with",
            (FIRST, AT),
            key=WHICH,
            required=True,
            help="The first report of each day, or the figures that were known at a time.",
        )
        if which == AT:
            # Never empty: an empty field has no value that a screen reader could tell.
            now = clock.now().astimezone(ZoneInfo(filters.zone)).replace(tzinfo=None, second=0, microsecond=0)
            state.setdefault(AS_OF, now)
            st.datetime_input(
                f"As reported on ({filters.zone})",
                key=AS_OF,
                bind="query-params",
                step=timedelta(minutes=1),
                width=260,
            )
        st.toggle("Only what changed", value=True, key=CHANGED, bind="query-params")
    summary_panel(reader, filters)
    chart_panel(reader, filters)
    days_panel(reader, filters)


def as_of(look: Look) -> datetime | None:
    """The chosen time."""
    chosen = st.session_state.get(AS_OF) if st.session_state.get(WHICH) == AT else None
    return None if chosen is None else calendar.utc(chosen, look.filters.zone)


def changes(look: Look) -> pd.DataFrame:
    """The figures of the range, with `changed`: whether they differ now."""
    rows = reported.changes(look.rows, look.selection(), as_of(look))
    return rows.assign(changed=reported.differs(rows["reported"], rows["now"]))


@panel(
    "Summary",
    reported.TABLE,
    help="Figures of a day are reported an hour after its end, and again when they have changed, at most once an hour.",
    figure=reported.reports,
)
def summary_panel(look: Look) -> None:
    days_changed = some(changes(look), NONE)
    differing = days_changed[days_changed["changed"]]
    days = ["site", "day"]
    last = days_changed["changed_at"].max()
    metrics(
        {
            "Days reported": (number(len(days_changed[days].drop_duplicates())), "Of each site."),
            "Days changed since": (
                number(len(differing[days].drop_duplicates())),
                "Days with a figure that is another now.",
            ),
            "Largest change": (_largest(differing), "Of the counts: " + meaning("change")),
            "Last change": (
                _short(look, last),
                "When a changed figure was last reported: today at a time, or on a day.",
            ),
        }
    )


def _short(look: Look, last: Any) -> str:
    """A time that fits on a phone."""
    if pd.isna(last):
        return "–"
    zone = ZoneInfo(look.filters.zone)
    local, now = last.astimezone(zone), look.now.astimezone(zone)
    return f"{local:%H:%M}" if local.date() == now.date() else f"{local:%b} {local.day}"


def _largest(differing: pd.DataFrame) -> str:
    counts = differing[differing["metric"] != "bounce_rate"]
    changed = [Change(now, was) for now, was in zip(counts["now"], counts["reported"], strict=True)]
    known = [change for change in changed if change.ratio is not None]
    if not known:
        return "new" if changed else "–"
    return str(max(known, key=lambda change: abs(change.ratio or 0)))


@panel(
    "Reported and now",
    reported.TABLE,
    help="Days are UTC. Of several sites, counts are added up and bounce rates are weighted by sessions.",
    figure=reported.reports,
)
def chart_panel(look: Look) -> None:
    rows = some(changes(look), NONE)
    metric = st.segmented_control(
        "Figure",
        list(NAMES),
        default="visitors",
        required=True,
        key=METRIC,
        bind="query-params",
        format_func=lambda name: NAMES[name],
        label_visibility="collapsed",
    )
    metric = metric or "visitors"
    share = metric == "bounce_rate"
    unit = "Bounce rate, %" if share else f"{NAMES[metric]} per day"
    both = [_by_day(rows, column, metric).assign(series=NAMES[metric]) for column in ("now", "reported")]
    over_time(
        look,
        both[0],
        unit=unit,
        series=[NAMES[metric]],
        zone="UTC",
        number=",.1f" if share else ",.0f",
        bin_seconds=DAY,
        kind="bar",
        before=both[1],
        before_name="as reported",
    )
    st.caption("Dashed: as reported. Bars: now.")


def _by_day(rows: pd.DataFrame, column: str, metric: str) -> pd.DataFrame:
    """Columns `bin`, `value`: a figure of all sites by day; the bounce rate in per cent."""
    wide = rows.pivot(index=["site", "day"], columns="metric", values=column)
    if metric == "bounce_rate":
        wide["bounces"] = wide["bounce_rate"] * wide["sessions"]
        sums = wide.groupby("day")[["bounces", "sessions"]].sum()
        value = 100 * sums["bounces"] / sums["sessions"].where(sums["sessions"] > 0)
    else:
        value = wide.groupby("day")[metric].sum()
    rows = value.rename("value").rename_axis("bin").reset_index()
    return rows.assign(bin=rows["bin"].dt.tz_localize(None))


@panel(
    "Days",
    reported.TABLE,
    help="Each figure of a site and day (UTC), as reported and now. Select a row for the day's history.",
    figure=reported.reports,
)
def days_panel(look: Look) -> None:
    rows = some(changes(look), NONE)
    if st.session_state.get(CHANGED, True):
        rows = rows[rows["changed"]].reset_index(drop=True)
    some(rows, "Nothing has changed since it was reported.")
    table, columns = _table(look, rows)
    picked = grid(table, "as-reported", columns, rows=12, select=True)
    if picked is None:
        raise EmptyError("Select a row to see the history of its day.")
    row = rows.iloc[picked]
    return _history(look, row["site"], row["day"].to_pydatetime())


def _table(look: Look, rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    text, zone = st.column_config.TextColumn, look.filters.zone
    pairs = list(zip(rows["metric"], rows["reported"], rows["now"], strict=True))
    before, now = (
        [value_text(metric, value) for metric, value in zip(rows["metric"], rows[name], strict=True)]
        for name in ("reported", "now")
    )
    changes = [None if now == was else Change(now, was).sorted_by for _, was, now in pairs]
    causes = text("Changed by", width="medium", help=meaning("cause"))
    table, columns = sheet(
        {
            "day": (rows["day"].dt.strftime("%Y-%m-%d"), text("Day (UTC)")),
            "site": ([shown(v) for v in rows["site"]], text("Site")),
            "figure": ([NAMES.get(v, shown(v)) for v in rows["metric"]], text("Figure")),
            "reported": (before, text("Reported", help=meaning("reported"))),
            "now": (now, text("Now", help=meaning("now"))),
            "difference": ([_difference(*pair) for pair in pairs], text("Difference")),
            "change": (changes, change_column()),
            "causes": ([shown(v) for v in rows["causes"]], causes),
            "reported at": (look.wall(rows["reported_at"]), time_column("Reported at", zone)),
            "changed at": (look.wall(rows["changed_at"]), time_column("Changed at", zone)),
        }
    )
    return (table if look.filters.site is None else table.drop(columns="site")), columns


def value_text(metric: str, value: float | None) -> str:
    if value is None or pd.isna(value):
        return "–"
    return f"{value:.1%}" if metric == "bounce_rate" else number(value)


def _difference(metric: str, was: float, now: float) -> str:
    if pd.isna(was) or pd.isna(now) or was == now:
        return ""
    return f"{100 * (now - was):+,.2f} points" if metric == "bounce_rate" else f"{now - was:+,.0f}"


def _history(look: Look, site: str, day: datetime) -> None:
    st.markdown(f"###### {day:%Y-%m-%d}, {plain(site)}")
    reports = reported.history(look.rows, site, day)
    now = reported.changes(look.rows, Selection(site, day, day + timedelta(seconds=DAY)))
    today = now.set_index("metric")["now"].reindex(list(NAMES))
    table = pd.DataFrame(
        {
            "at": [f"{time:%Y-%m-%d %H:%M:%S}" for time in look.wall(reports["reported_at"])],
            "cause": [shown(v) for v in reports["cause"]],
            **{name: [value_text(name, v) for v in reports[name]] for name in NAMES},
            "note": [clipped(shown(v), NOTE_SHOWN) for v in reports["note"]],
        }
    )
    table.loc[len(table)] = ["now", "", *(value_text(name, today[name]) for name in NAMES), ""]
    text = st.column_config.TextColumn
    columns = {
        "at": text(f"Reported at ({look.filters.zone})"),
        "cause": text("Because of", help=meaning("cause")),
        **{name: text(label) for name, label in NAMES.items()},
        "note": text("Note", width="medium"),
    }
    grid(table, "day-history", columns, rows=12)
