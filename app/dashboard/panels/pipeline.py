"""Pipeline: is each flow keeping up? Figures only; no setting, address or secret is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures.query import Columns, Where, greatest, query, total
from tidemark.figures.reader import Reader
from tidemark.figures.rows import if_any
from tidemark.figures.text import duration, number, plain, shown

from .. import clock, data
from ..charts import processed
from ..charts.timechart import over_time
from ..controls.grid import grid, time_column
from ..filters import Filters
from ..panel import LIVE, EmptyError, Look, metrics, panel, some

PROGRESS = "quality/progress"
ACCOUNTS = "quality/accounts"
MEASURES = (
    ("rows_per_second", "Rows per second", "Rows per second", ",.0f"),
    ("freshness_seconds", "Freshness: age of the newest line when committed", "Seconds", ",.2f"),
    ("lag", "Lag: lines waiting", "Lines", ",.0f"),
    ("duration_ms", "Batch duration", "Milliseconds", ",.0f"),
)
BATCHES = 50


def page(reader: Reader, filters: Filters) -> None:
    flows_panel(reader, filters)
    left, right = st.columns(2)
    for i, (column, *_) in enumerate(MEASURES):
        with (left, right)[i % 2]:
            HISTORY[column](reader, filters)
    with left:
        backfills_panel(reader, filters)
    with right:
        counts_panel(reader, filters)
    batches_panel(reader, filters)


def last_batches(look: Look) -> pd.DataFrame:
    """The newest progress row of each flow."""
    newest = look.rows(query(PROGRESS, {"flow": "flow", "at": greatest("recorded_at")}, group_by=["flow"]))
    rows = []
    for flow, at in newest.sort_values("flow", ascending=False).itertuples(index=False):
        where = (Where("flow", "=", flow), Where("recorded_at", ">=", at.to_pydatetime()))
        rows.append(look.rows(query(PROGRESS, COLUMNS, where, order_by=["-batch_id"], limit=1)))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=COLUMNS)


COLUMNS = [
    "flow", "batch_id", "recorded_at", "rows", "duration_ms", "rows_per_second", "freshness_seconds", "lag",
    "newest_event_time",
]  # fmt: skip


@panel("Flows, at their last batch", PROGRESS, ACCOUNTS, every=LIVE)
def flows_panel(look: Look) -> None:
    batches = some(last_batches(look), "No batch has been recorded yet.")
    sums = _sums(look)
    # A flow that has committed nothing for this long while lines wait is stuck.
    stale = data.contract(look.reader, PROGRESS).number("stale_seconds")
    rows: Iterable[Any] = batches.itertuples(index=False)
    for row in rows:
        silent = (look.now - row.recorded_at).total_seconds()
        stuck = stale is not None and silent > stale and (row.lag or 0) > 0
        state = f"last batch {duration(round(max(silent, 0)))} ago" + (", while lines wait" if stuck else "")
        icon = ":material/error:" if stuck else ":material/check_circle:"
        color = "red" if stuck else "green"
        st.markdown(f":{color}[{icon}] **{plain(row.flow)}** · batch {row.batch_id:,} · {state}")
        metrics(
            {
                "Rows per second": (number(row.rows_per_second), None),
                "Freshness": (_seconds(row.freshness_seconds), None),
                "Lag": (number(row.lag), "Lines that wait to be read."),
                "Batch took": (_seconds(row.duration_ms / 1000), None),
                "Rows in batch": (number(row.rows), None),
            }
        )
        notes = []
        if not pd.isna(row.newest_event_time):
            stamp = clock.stamp(row.newest_event_time, look.filters.zone, look.now)
            notes.append(f"Newest event {stamp} {look.filters.zone}")
        if row.flow in sums:
            late, rejected = sums[row.flow]
            notes.append(f"{late:,} late and {rejected:,} rejected so far")
        if notes:
            st.caption(plain("; ".join(notes)))


def _sums(look: Look) -> dict[str, tuple[int, int]]:
    if look.reader.version(ACCOUNTS) is None:
        return {}
    columns: Columns = {"flow": "flow", "late": total("late"), "rejected": total("rejected")}
    sums = look.rows(query(ACCOUNTS, columns, group_by=["flow"]))
    return {flow: (int(late), int(rejected)) for flow, late, rejected in sums.itertuples(index=False)}


def _seconds(value: float | None) -> str:
    if value is None or pd.isna(value):
        return "–"
    return f"{value * 1000:,.0f} ms" if value < 1 else f"{value:,.1f} s" if value < 60 else duration(value)


def _history_panel(column: str, title: str, unit: str, form: str) -> Callable[[Reader, Filters], None]:
    def body(look: Look) -> None:
        columns: Columns = {"series": "flow", "value": greatest(column)}
        span, values = processed.binned(look, PROGRESS, "recorded_at", columns, by=["series"])
        some(values, look=look)
        values = values.dropna(subset=["value"]).sort_values("bin")
        values = values.assign(bin=look.wall(values["bin"]), series=[shown(s) for s in values["series"]])
        series = sorted(set(values["series"]), reverse=True)
        over_time(
            look, values, unit=unit, series=series, number=form, height=230, bin_seconds=span.bin_seconds
        )

    body.__name__ = body.__qualname__ = f"{column}_panel"
    return panel(title, PROGRESS, help="The greatest value in each time bin.")(body)


# Up to this many tables that are filled together are listed by name.
_MANY = 4
WHOLE = "Every table has its whole history."
HISTORY = {column: _history_panel(column, title, unit, form) for column, title, unit, form in MEASURES}


@panel(
    "Backfills",
    data.INVENTORY,
    help="Tables that were new to a home with history, or have a new column; and tables that are recomputed because the"
    " own hosts or trusted proxies of a site have changed.",
)
def backfills_panel(look: Look) -> None:
    columns = ["table", "complete", "done", "total"]
    states = some(if_any(look.rows, query(data.INVENTORY, columns, order_by=["table"])), WHOLE)
    complete = states["complete"].astype(bool)
    lacking, recomputed = states[~complete], states[complete & states["done"].notna()]
    if lacking.empty and recomputed.empty:
        raise EmptyError(WHOLE)
    for table, _, done, parts in lacking.itertuples(index=False):
        if pd.isna(parts):
            st.text(f"{shown(table)} is incomplete: its backfill has not begun.")
        else:
            _progress(f"{shown(table)} is incomplete", done, parts)
    if len(recomputed):
        ready = int((recomputed["done"] == recomputed["total"]).sum())
        st.text(f"Changed settings of sites are being applied to history. Tables made so far: {ready}.")
    groups: Iterable[Any] = recomputed[recomputed["done"] < recomputed["total"]].groupby(["done", "total"])[
        "table"
    ]
    for (done, parts), names in groups:
        _progress(shown(", ".join(names)) if len(names) < _MANY else f"{len(names)} tables", done, parts)


def _progress(what: str, done: float, parts: float) -> None:
    st.progress(done / parts if parts else 1.0, plain(f"{what}: {done:,.0f} of {parts:,.0f} parts done"))


@panel("Late and rejected lines", ACCOUNTS)
def counts_panel(look: Look) -> None:
    names = {"late": "Late", "rejected": "Rejected"}
    span, counts = processed.binned(look, ACCOUNTS, "committed_at", {c: total(c) for c in names})
    some(counts, look=look)
    processed.bars(look, span, counts, names, "Lines", height=230)


@panel("Latest batches", PROGRESS)
def batches_panel(look: Look) -> None:
    rows = some(look.rows(query(PROGRESS, COLUMNS, order_by=["-recorded_at"], limit=BATCHES)), look=look)
    for column in ("recorded_at", "newest_event_time"):
        rows[column] = look.wall(rows[column])
    zone = look.filters.zone
    number_column = st.column_config.NumberColumn
    settings = {
        "flow": st.column_config.TextColumn("Flow"),
        "batch_id": number_column("Batch", format="localized"),
        "recorded_at": time_column("Recorded", zone),
        "rows": number_column("Rows", format="localized"),
        "duration_ms": number_column("Took (ms)", format="localized"),
        "rows_per_second": number_column("Rows/s", format="%.0f"),
        "freshness_seconds": number_column("Freshness (s)", format="%.2f"),
        "lag": number_column("Lag", format="localized"),
        "newest_event_time": time_column("Newest event", zone),
    }
    grid(rows, "batches", settings)
