"""The figures of days as they were reported, what they are now, and what changed them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import pandas as pd

from tidemark.figures import conditions, notes
from tidemark.figures.earlier_notes import with_columns
from tidemark.figures.measures import LINES, SESSIONS, TRAFFIC, Base, Gold, measured
from tidemark.figures.query import Condition, Where, query
from tidemark.figures.reader import MissingTableError
from tidemark.figures.rows import Rows, if_any
from tidemark.figures.selection import Selection
from tidemark.figures.zones import midnight

TABLE = "quality/reported"
COLUMNS = ("site", "day", "metric", "value", "reported_at", "cause")
METRICS = ("requests", "pageviews", "visitors", "sessions", "bounce_rate")
KEY = ["site", "day", "metric"]
VISITOR_HOURS = Gold("gold/visitor_hours", 3600)
SETTINGS = "settings"
# The cause of a change that no report has yet.
WAITING = "not reported yet"
_DAY = 86_400
_NONE = -1.0


def reports(rows: Rows, selection: Selection) -> pd.DataFrame:
    """The columns COLUMNS of the days (UTC) that lie in the range, also in part, by the time of the report."""
    where = [*conditions.of_site(selection)]
    if selection.start is not None:
        where.append(Where("day", ">=", midnight(selection.start)))
    if selection.end is not None:
        where.append(Where("day", "<", selection.end))
    return if_any(rows, query(TABLE, COLUMNS, where, order_by=["reported_at", *KEY]), {"value": "float64"})


def changes(rows: Rows, selection: Selection, as_of: datetime | None = None) -> pd.DataFrame:
    """One row per site, day (UTC) and metric, newest day first: columns `site`, `day`, `metric`, `reported` (as of a
    time; by default first), `reported_at`, `now`, `causes` of the reports since then (a text), `changed_at` (of the
    last). Days that were not reported yet at that time are missing."""
    all_reports = reports(rows, selection)
    if as_of is None:
        base = all_reports.groupby(KEY, as_index=False).first()
    else:
        base = all_reports[all_reports["reported_at"] <= as_of].groupby(KEY, as_index=False).last()
    base = base.rename(columns={"value": "reported"}).drop(columns="cause")
    if base.empty:
        return base.assign(now=[], causes=[], changed_at=[])
    since = all_reports.merge(base[[*KEY, "reported_at"]], on=KEY, suffixes=("", "_base"))
    since = since[since["reported_at"] > since["reported_at_base"]]
    since_then = since.groupby(KEY, as_index=False).agg(
        causes=("cause", lambda each: ", ".join(dict.fromkeys(each))), changed_at=("reported_at", "max")
    )
    last = all_reports.groupby(KEY, as_index=False)[["value"]].last().rename(columns={"value": "last"})
    start, end = base["day"].min().to_pydatetime(), base["day"].max().to_pydatetime() + timedelta(days=1)
    days = replace(selection.shifted(start, end), filters=(), zone="UTC")
    both = base.merge(current(rows, days), on=KEY, how="left")
    both = both.merge(last, on=KEY).merge(since_then, on=KEY, how="left")
    counts = both["metric"] != "bounce_rate"
    both["now"] = both["now"].where(~(counts & both["now"].isna()), 0.0)
    waiting = differs(both["last"], both["now"])
    both["causes"] = both["causes"].fillna("")
    both.loc[waiting, "causes"] = [f"{text}, {WAITING}".lstrip(", ") for text in both.loc[waiting, "causes"]]
    order = both["metric"].map({name: i for i, name in enumerate(METRICS)})
    both = both.assign(order=order).sort_values(["day", "site", "order"], ascending=[False, True, True])
    return both[[*KEY, "reported", "reported_at", "now", "causes", "changed_at"]].reset_index(drop=True)


def differs(one: pd.Series, other: pd.Series) -> pd.Series:
    """Whether figures differ; two missing ones do not."""
    return ~((one == other) | (one.isna() & other.isna()))


def current(rows: Rows, selection: Selection, where: Sequence[Condition] = ()) -> pd.DataFrame:
    """The figures of the selection's days now, by the functions of the other pages: columns `site`, `day`, `metric`,
    `now`. Days without requests are missing."""

    def each(base: Base, names: Sequence[str]) -> pd.DataFrame:
        counts = measured(rows, selection, base, names, by=["site"], bin_seconds=_DAY, where=where)
        return counts.rename(columns={"bin": "day"}).set_index(["site", "day"])

    parts = [
        each(LINES.of(TRAFFIC), ["requests", "pageviews"]),
        each(LINES.of(VISITOR_HOURS, TRAFFIC), ["visitors"]),
        each(SESSIONS, ["sessions", "bounces"]),
    ]
    wide = pd.concat(parts, axis=1).fillna(0)
    wide["bounce_rate"] = wide["bounces"] / wide["sessions"].where(wide["sessions"] > 0)
    long = wide[list(METRICS)].astype("float64").melt(ignore_index=False, var_name="metric", value_name="now")
    return long.reset_index()[[*KEY, "now"]]


def history(rows: Rows, site: str, day: datetime) -> pd.DataFrame:
    """The reports of a day of a site: columns `reported_at`, `cause`, the METRICS from then on, and `note`, which says
    more of the cause."""
    all_reports = reports(rows, Selection(site, day, day + timedelta(seconds=_DAY)))
    # A report has the metrics that changed; a missing value is one, too.
    all_reports["value"] = all_reports["value"].fillna(_NONE)
    wide = all_reports.pivot(index=["reported_at", "cause"], columns="metric", values="value")
    wide = wide.reindex(columns=list(METRICS)).ffill().replace(_NONE, float("nan")).reset_index()
    known = _with_states(rows, site)
    before = [None, *wide["reported_at"].iloc[:-1]]
    wide["note"] = [
        "" if since is None else _noted(known, cause, since, at)
        for since, at, cause in zip(before, wide["reported_at"], wide["cause"], strict=True)
    ]
    return wide


def _noted(known: pd.DataFrame, cause: str, since: datetime, at: datetime) -> str:
    kept = known[(known["cause"] == cause) & (known["time"] > since) & (known["time"] <= at)]
    if cause == SETTINGS:  # those of goals change none of these figures
        kept = kept[kept["state"] == notes.State.APPLIED]
    return "; ".join(kept["text"])


def _with_states(rows: Rows, site: str) -> pd.DataFrame:
    """The notes of a site with their `state`. A table that an earlier version made has no such column yet."""
    there: Collection[str] = ()
    with suppress(MissingTableError):
        there = rows.reader.contract(notes.TABLE).columns
    later = [name for name in ("about", "state") if name in there]
    known = notes.notes(rows, site, columns=[*notes.COLUMNS, *later])
    return known.assign(state=[with_columns(row).get("state") or "" for row in known.to_dict("records")])
