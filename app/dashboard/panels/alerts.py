"""Alerts: how every rule stands, what fired when and why, and the notes of all charts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import streamlit as st

from tidemark.errors import SettingError
from tidemark.figures import alerts, explain
from tidemark.figures.alert_rules import Rule, rule_of
from tidemark.figures.declared import FILE, Declared
from tidemark.figures.reader import Reader, ReadError
from tidemark.figures.rules import of_lines
from tidemark.figures.selection import Selection
from tidemark.figures.text import clipped, duration, number, plain, shown

from .. import clock, data
from ..charts.rulechart import metric_of, requests_view, rulechart, value_text
from ..controls import actions, moved
from ..controls.grid import grid, sheet, texts, time_column
from ..filters import Filters
from ..panel import EmptyError, Look, meaning, metrics, panel, some
from .notes import notes_panel

STATES = {
    "firing": "▲ firing",
    "ok": "✓ ok",
    "unknown": "? unknown",
    "ended": "■ ended",
    "withdrawn": "✕ withdrawn",
}
# Names the selected alert in the page's address.
IN_ADDRESS = "alert"
NOT_EVALUATED = "… not evaluated yet"
WINDOWS = {300: "5 minutes", 3600: "hour", 86_400: "day"}
# Windows that a chart shows before an alert and after it, and most of an alert itself.
AROUND, MOST_FIRED = 36, 1000
TEXT_SHOWN = 120
EXAMPLE = """\
[alerts.errors]
metric = "share_5xx"    # a share of the requests, between 0 and 1
window = "5m"
above = 0.05
to = ["mailto://user:password@mail.example?to=ops@shop.example"]

[alerts.silence]
metric = "requests"
window = "1h"
below = 1
"""


def page(reader: Reader, filters: Filters) -> None:
    rules_panel(reader, filters)
    fired_panel(reader, filters)
    notes_panel(reader, filters)


@panel(
    "Rules",
    alerts.RULES,
    help="How each rule stood at the end of its last evaluated window.",
    figure=alerts.rules,
)
def rules_panel(look: Look) -> None:
    states, fired = alerts.rules(look.rows, look.selection()), alerts.alerts(look.rows, look.selection())
    known, trouble = _declared(look)
    if trouble:
        st.warning(plain(trouble), icon=":material/error:")
    waiting = [name for name in known.of("alerts") if name not in set(states["rule"])]
    if states.empty and not waiting:
        return _how_to_declare(look)
    stands = fired[fired["state"] != "withdrawn"]
    waits = fired["due"].fillna(value=False).astype(bool)
    metrics(
        {
            "Firing now": (number((states["state"] == "firing").sum()), meaning("firing")),
            "Fired in the range": (number(len(stands)), meaning("fired")),
            "Withdrawn": (number(len(fired) - len(stands)), meaning("withdrawn")),
            "Waiting messages": (number(waits.sum()), meaning("undelivered")),
        }
    )
    rules = {name: _rule(known, name) for name in {*states["rule"], *waiting}}
    table, columns = _rules_table(look, states, rules)
    later = pd.DataFrame(
        {"rule": waiting, "state": NOT_EVALUATED, "goes to": [_targets(rules[n]) for n in waiting]}
    )
    table = (
        pd.concat([table, later.assign(rule=later["rule"].map(shown))], ignore_index=True)
        if waiting
        else table
    )
    picked = grid(table, "rules", columns, rows=8, select=True)
    if picked is None or picked >= len(states):
        st.caption("Select a rule to see its figure over the range.")
        return None
    row = states.iloc[picked]
    rule, selection = rules[row["rule"]], look.selection()
    if rule is None:
        raise EmptyError(_gone(row["rule"]))
    start = selection.start or data.extent(look.reader, row["site"]).first or look.now
    end = min(selection.end or look.now, look.now)
    mine = fired[(fired["rule"] == row["rule"]) & (fired["site"] == row["site"])]
    rulechart(look, rule, row["site"], start, end, mine)
    return _show_requests(look, "rule", rule, row["site"], start, end)


def _rules_table(
    look: Look, states: pd.DataFrame, rules: Mapping[str, Rule | None]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    text, metrics = st.column_config.TextColumn, [_metric(about) for about in states["about"]]
    values, bounds = (
        [value_text(*pair) for pair in zip(metrics, states[name], strict=True)] for name in ("value", "bound")
    )
    unknown = "Unknown: the last window could not be evaluated, such as a share without requests."
    targets = (
        "The kinds of its targets, which are secrets themselves. A rule without targets of its own goes to those of the"
        " setting `alert_to` of the pipeline, if it has any."
    )
    return sheet(
        {
            "rule": ([shown(v) for v in states["rule"]], text("Rule")),
            "site": ([shown(v) for v in states["site"]], text("Site")),
            "state": ([STATES.get(v, v) for v in states["state"]], text("State", help=unknown)),
            "value": (values, text("Value", help="Of the last evaluated window.")),
            "bound": (bounds, text("Bound", help="The bound nearest to the value.")),
            "until": (look.wall(states["judged_until"]), time_column("Evaluated until", look.filters.zone)),
            "goes to": ([_targets(rules[name]) for name in states["rule"]], text("Goes to", help=targets)),
            "about": (texts(states["about"], TEXT_SHOWN), text("Watches", width="medium")),
        }
    )


@panel(
    "What fired",
    alerts.ALERTS,
    help="Alerts that began in the range, or still fired in it. A late line may raise or withdraw one.",
    figure=alerts.alerts,
)
def fired_panel(look: Look) -> None:
    fired = some(alerts.alerts(look.rows, look.selection()), "No alert fired in this range.")
    picked = _picked(look, fired)
    row = fired.iloc[picked or 0]
    st.text(_delivered(look, row, newest=picked is None))
    rule = _rule(_declared(look)[0], row["rule"])
    if rule is None:
        raise EmptyError(_gone(row["rule"]))
    width = timedelta(seconds=rule.seconds)
    start, end = _span(look, row, rule)
    around = _around(rule) * width
    mine = fired[(fired["rule"] == row["rule"]) & (fired["site"] == row["site"])]
    rulechart(look, rule, row["site"], start - around, min(end + around, look.now), mine)
    with st.container(horizontal=True, key="of-alert"):
        _show_requests(look, "alert", rule, row["site"], start, end)
        if rule.metric in explain.METRICS or rule.goal is not None:
            begun, over = (row[name].to_pydatetime() for name in ("window_start", "window_end"))
            selection = Selection(row["site"], begun, over, look.filters.zone, rule.filters)
            moved.offer(look, selection, rule.metric, st.container(width="content"))


def _picked(look: Look, fired: pd.DataFrame) -> int | None:
    """The number of the selected alert, which the page's address names."""
    names = [
        f"{rule} {site} {start:%Y-%m-%dT%H:%MZ}"
        for rule, site, start in zip(fired["rule"], fired["site"], fired["window_start"], strict=True)
    ]
    table, columns = _fired_table(look, fired)
    address = st.query_params.get(IN_ADDRESS)
    chosen = names.index(address) if address in names else None
    picked = grid(table, "alerts", columns, rows=8, select=True, chosen=chosen)
    if picked is not None:
        st.query_params[IN_ADDRESS] = names[picked]
    elif chosen is not None:
        del st.query_params[IN_ADDRESS]
    elif address:
        st.caption("The alert of the address did not fire in this range.")
    return picked


def _around(rule: Rule) -> int:
    """Windows that a chart shows before and after an alert: few of a figure that takes long."""
    return (
        max(3, min(AROUND, timedelta(days=3) // timedelta(seconds=rule.seconds)))
        if of_lines(rule)
        else AROUND
    )


def _span(look: Look, row: pd.Series, rule: Rule) -> tuple[datetime, datetime]:
    """When an alert fired; of one that never ended, up to now or MOST_FIRED windows."""
    start = row["window_start"].to_pydatetime()
    end = look.now if pd.isna(row["ended_at"]) else row["ended_at"].to_pydatetime()
    if row["state"] == "withdrawn":
        end = row["window_end"].to_pydatetime()
    return start, min(end, start + MOST_FIRED * timedelta(seconds=rule.seconds))


def _fired_table(look: Look, fired: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    text, zone = st.column_config.TextColumn, look.filters.zone
    every = [row for _, row in fired.iterrows()]
    lasted = [
        duration(t.total_seconds()) if pd.notna(t) else "" for t in fired["ended_at"] - fired["window_start"]
    ]
    why = text("Why", width="medium", help="The figure in the window that made the rule fire, and its bound.")
    delivered = text("Delivered", width="medium", help="The last message about it, and to which targets.")
    return sheet(
        {
            "began": (look.wall(fired["window_start"]), time_column("Window began", zone)),
            "rule": ([shown(v) for v in fired["rule"]], text("Rule")),
            "site": ([shown(v) for v in fired["site"]], text("Site")),
            "state": ([STATES.get(v, v) for v in fired["state"]], text("State")),
            "why": (list(map(_why, every)), why),
            "ended": (look.wall(fired["ended_at"]), time_column("Ended", zone)),
            "lasted": (lasted, text("Lasted")),
            "delivery": ([_delivery(look, row) for row in every], delivered),
        }
    )


def _why(row: pd.Series) -> str:
    value, bound = value_text(row["metric"], row["value"]), value_text(row["metric"], row["bound"])
    return f"{metric_of(row['metric'])[0].partition(',')[0]} {value}, bound {bound}"


def _delivery(look: Look, row: pd.Series) -> str:
    if row["failure"]:
        return clipped(shown(f"waits: {row['failure']}" if row["due"] else row["failure"]), TEXT_SHOWN)
    if row["due"]:
        return "waits"
    if pd.isna(row["delivered_at"]):
        return "no target yet"
    if not row["delivered_to"]:
        return "no target"
    to = shown(row["delivered_to"])
    return f"{row['delivered']}: {to}, {clock.stamp(row['delivered_at'], look.filters.zone, look.now)}"


def _delivered(look: Look, row: pd.Series, *, newest: bool) -> str:
    """An alert in sentences."""
    zone = look.filters.zone
    start, end = (clock.stamp(row[name], zone)[:16] for name in ("window_start", "window_end"))
    parts = [
        f"{'The newest: ' if newest else ''}{shown(row['rule'])} on {shown(row['site'])}, {shown(row['about'])}.",
        f"Fired with the window {start} to {end} ({zone}): {_why(row)}.",
    ]
    if row["state"] == "withdrawn":
        parts.append(
            f"Withdrawn {clock.stamp(row['withdrawn_at'], zone)}: with what came later it does not fire."
        )
    elif pd.notna(row["ended_at"]):
        parts.append(f"Ended {clock.stamp(row['ended_at'], zone)[:16]}.")
    if row["late"]:
        parts.append("Lines that came late raised it.")
    return " ".join(parts)


def _show_requests(look: Look, key: str, rule: Rule, site: str, start: datetime, end: datetime) -> None:
    actions.requests_button(
        requests_view(look, rule, site, start, end),
        f"requests-of-{key}",
        help="The newest requests that the figure counted, and their lines as received.",
    )


def _declared(look: Look) -> tuple[Declared, str]:
    """The declarations in the home's file, or why it cannot be read."""
    try:
        return data.declared(look.reader), ""
    except ReadError as error:
        return Declared(), str(error)


def _rule(known: Declared, name: str) -> Rule | None:
    """A rule that is declared and valid; the pipeline reports others."""
    try:
        return rule_of(known, name) if name in known.of("alerts") else None
    except SettingError:
        return None


def _targets(rule: Rule | None) -> str:
    return "" if rule is None else ", ".join(map(shown, rule.targets)) or "alert_to, if it is set"


def _metric(about: str) -> str:
    return about.partition(" ")[0]


def _gone(name: str) -> str:
    return f"There is no chart: the rule {shown(name)} is not declared in {FILE} here."


def _how_to_declare(look: Look) -> None:
    st.text("No rule is declared. A rule is a table of tidemark.toml in the home:")
    st.code(EXAMPLE, language="toml")
    if data.home(look.reader) is not None:
        st.html('<a href="definitions?definitions=Alerts" target="_self">Declare one in a form →</a>')
    st.caption(
        "docs/alerts.md has every setting. `tidemark alerts --test` sends a test message to the targets."
    )
