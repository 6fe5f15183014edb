"""Quality: results of expectations, rejected lines with reasons, and accounting."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import streamlit as st

from tidemark.figures.query import Columns, Expression, Where, count, greatest, least, query, total
from tidemark.figures.reader import Reader
from tidemark.figures.selection import Selection
from tidemark.figures.text import clipped, duration, number, plain, shown

from .. import data
from ..charts import basic, processed
from ..charts.chartdata import data_view
from ..controls import actions
from ..controls.grid import count_column, grid, sheet, texts, time_column
from ..filters import Filters
from ..panel import EmptyError, Look, beside, metrics, panel, some
from .live import REJECTED_COLUMNS, rejected_table

RESULTS = "quality/results"
ACCOUNTS = "quality/accounts"
REJECTED = "silver/rejected"
SITES = "quality/sites"
FORMATS = "gold/formats"
COUNTS = {"accepted": "Accepted", "rejected": "Rejected", "duplicate": "Duplicate", "late": "Late"}
REJECTED_READ = 5000
REJECTED_SHOWN = 500
RUNS_SHOWN = 2000
RESULT_COLUMNS = [
    "run_time",
    "table",
    "expectation",
    "column",
    "severity",
    "success",
    "observed_value",
    "unexpected_count",
    "details",
]


def page(reader: Reader, filters: Filters) -> None:
    balance_panel(reader, filters)
    expectations_panel(reader, filters)
    beside(reader, filters, history_panel, flow_panel)
    beside(reader, filters, reasons_panel, lateness_panel)
    formats_panel(reader, filters)
    browser_panel(reader, filters)


@panel("Every line accounted for", ACCOUNTS, help="received = accepted + rejected + duplicate, for all time.")
def balance_panel(look: Look) -> None:
    columns = {c: total(c) for c in ("received", *COUNTS)}
    sums = look.rows(query(ACCOUNTS, columns, (Where("flow", "=", "requests"),))).iloc[0].astype(int)
    late = data.contract(look.reader, ACCOUNTS).number("late_seconds")
    limit = "the lateness limit" if late is None else duration(late)
    late_words = f"Accepted, but more than {limit} behind their site's newest line."
    metrics(
        {
            name.capitalize(): (number(sums[name]), late_words if name == "late" else None)
            for name in ("received", *COUNTS)
        }
    )
    counted = sums["accepted"] + sums["rejected"] + sums["duplicate"]
    identity = (
        f"{sums['received']:,} received = {sums['accepted']:,} accepted + {sums['rejected']:,} rejected "
        f"+ {sums['duplicate']:,} duplicate"
    )
    if counted == sums["received"]:
        st.success(plain(identity), icon=":material/check_circle:")
    else:
        difference = (
            f"The accounts do not balance, the difference is {sums['received'] - counted:,}: {identity}"
        )
        st.error(plain(difference), icon=":material/error:")


@panel("Expectations, latest run", RESULTS)
def expectations_panel(look: Look) -> None:
    newest = some(
        look.rows(query(RESULTS, {"table": "table", "run_time": greatest("run_time")}, group_by=["table"])),
        "No expectation has run yet.",
    )
    since = Where("run_time", ">=", newest["run_time"].min().to_pydatetime())
    results = look.rows(query(RESULTS, RESULT_COLUMNS, (since,), order_by=["-run_time"], limit=RUNS_SHOWN))
    results = results.merge(newest, on=["table", "run_time"]).drop_duplicates(
        ["table", "expectation", "column"]
    )
    failed = results[~results["success"]]
    critical = failed[failed["severity"] == "critical"]
    if failed.empty:
        st.success(f"All {len(results)} expectations hold.", icon=":material/check_circle:")
    elif (failed["severity"] == "info").all():
        st.info(
            f"{len(results) - len(failed)} of {len(results)} expectations hold; the rest are for information only.",
            icon=":material/info:",
        )
    elif critical.empty:
        st.warning(
            f"{len(failed)} of {len(results)} expectations failed, none critical.", icon=":material/warning:"
        )
    else:
        st.error(f"{len(critical)} critical of {len(failed)} failed expectations.", icon=":material/error:")
    results = results.sort_values(["success", "severity", "table", "expectation"], kind="stable")
    text = st.column_config.TextColumn
    table, settings = sheet(
        {
            "result": (
                ["✓ holds" if ok else "✗ failed" for ok in results["success"]],
                text("Result", width="small"),
            ),
            "severity": (results["severity"], text("Severity", width="small")),
            "table": (results["table"], text("Table")),
            "expectation": ([shown(e) for e in results["expectation"]], text("Expectation", width="large")),
            "column": ([shown(c) for c in results["column"]], text("Column")),
            "observed": (texts(results["observed_value"], 120), text("Observed")),
            "unexpected": (results["unexpected_count"], count_column("Unexpected")),
            "details": (texts(results["details"], 200), text("Details", width="medium")),
            "run_time": (look.wall(results["run_time"]), time_column("Run", look.filters.zone)),
        }
    )
    grid(table, "expectations", settings, rows=12)


@panel("Expectations over time", RESULTS)
def history_panel(look: Look) -> None:
    columns: Columns = {"success": "success", "n": count()}
    span, counts = processed.binned(look, RESULTS, "run_time", columns, by=["success"])
    some(counts, look=look)
    names = {"holds": "Holds", "failed": "Failed"}
    wide = pd.DataFrame(
        {
            "bin": counts["bin"],
            "holds": counts["n"].where(counts["success"], 0),
            "failed": counts["n"].mask(counts["success"], 0),
        }
    )
    processed.bars(look, span, wide, names, "Results")


@panel("Lines over time", ACCOUNTS, help="By when they were processed. Late lines are accepted lines too.")
def flow_panel(look: Look) -> None:
    columns = {c: total(c) for c in COUNTS}
    span, counts = processed.binned(
        look, ACCOUNTS, "committed_at", columns, (Where("flow", "=", "requests"),)
    )
    some(counts, look=look)
    counts["accepted"] = counts["accepted"] - counts["late"]
    names = {"accepted": "On time", "late": "Late", "rejected": "Rejected", "duplicate": "Duplicate"}
    processed.bars(look, span, counts, names, "Lines")


def newest_rejected(look: Look) -> pd.DataFrame:
    """The newest rejected lines of the range by time of rejection, at most REJECTED_READ."""
    span = look.span()
    return look.rows(
        query(
            REJECTED,
            REJECTED_COLUMNS,
            look.filters.where("rejected_at", span),
            order_by=["-rejected_at"],
            limit=REJECTED_READ,
        )
    )


@panel("Rejected by reason", REJECTED, help=f"Of the newest {REJECTED_READ:,} rejected lines in the range.")
def reasons_panel(look: Look) -> None:
    rejected = some(newest_rejected(look), "No line was rejected in this range.")
    counts = rejected["reasons"].explode().dropna().value_counts()
    reasons = counts.rename_axis("reason").reset_index(name="lines")
    reasons["reason"] = [clipped(shown(r), 60) for r in reasons["reason"]]
    top = reasons.head(12)
    words = ", ".join(f"{name} {n:,}" for name, n in top[["reason", "lines"]].itertuples(index=False))
    basic.draw(
        basic.ranking(top, "reason", "lines", "Lines"), look.key, f"Rejected lines by reason: {words}."
    )
    data_view(look, reasons, {"reason": "Reason", "lines": count_column("Lines")})


@panel(
    "How late lines arrive",
    SITES,
    help="How far an accepted line lay behind its site's newest line, for all time.",
)
def lateness_panel(look: Look) -> None:
    sites = look.rows(query(SITES, ["site", "lateness"], look.filters.sites()))
    sites = some(sites[[v is not None for v in sites["lateness"]]], look=look)
    behind = _ranges(data.contract(look.reader, SITES).names("lateness_bounds"))
    if not behind:
        raise EmptyError("The ranges are known once the pipeline has started with this version.")
    rows = [
        {"site": shown(site), "behind": behind[i], "lines": int(n)}
        for site, counts in zip(sites["site"], sites["lateness"], strict=True)
        for i, n in enumerate(list(counts)[: len(behind)])
    ]
    table = pd.DataFrame(rows)
    summed = table.groupby("behind", sort=False, as_index=False)[["lines"]].sum()
    title = "Behind the site's newest line"
    words = ", ".join(f"{name} {n:,}" for name, n in summed.itertuples(index=False))
    basic.draw(basic.columns(summed, "behind", "lines", title, "Lines"), look.key, f"{title}: {words}.")
    data_view(look, summed, {"behind": title, "lines": count_column("Lines")})
    if len(sites) > 1:
        with st.expander("By site"):
            grid(
                table.pivot(index="site", columns="behind", values="lines")[behind].reset_index(),
                "lateness",
            )


def _ranges(bounds: list[str]) -> list[str]:
    """Names of the ranges between bounds in seconds, with those below the first and above the last."""
    if not bounds:
        return []
    ends = [duration(float(bound)) for bound in bounds]
    return [f"≤ {ends[0]}", *(f"{a} – {b}" for a, b in pairwise(ends)), f"> {ends[-1]}"]


@panel("Log formats", FORMATS, help="Of all accepted lines; the times are those in the lines.")
def formats_panel(look: Look) -> None:
    columns: dict[str, str | Expression] = {"site": "site", "format": "format", "requests": total("requests")}
    columns |= {"first": least("first_event_time"), "newest": greatest("newest_event_time")}
    rows = some(
        look.rows(query(FORMATS, columns, look.filters.sites(), group_by=["site", "format"])), look=look
    )
    rows = rows.sort_values(["site", "requests"], ascending=[True, False], kind="stable")
    text, zone = st.column_config.TextColumn, look.filters.zone
    shown_rows, settings = sheet(
        {
            "site": ([shown(s) for s in rows["site"]], text("Site")),
            "format": ([shown(f) for f in rows["format"]], text("Format")),
            "requests": (rows["requests"], count_column("Lines")),
            "first": (look.wall(rows["first"]), time_column("First line", zone)),
            "newest": (look.wall(rows["newest"]), time_column("Newest line", zone)),
        }
    )
    picked = grid(shown_rows, "formats", settings, rows=8, select=True)
    if picked is not None:
        row = rows.iloc[picked]
        where = (Where("site", "=", row["site"]), Where("format", "=", row["format"]))
        view = actions.Requests(Selection(zone=look.filters.zone), where)
        actions.requests_button(view, "format-requests", "Show its requests", icon=None)


@panel("Rejected lines", REJECTED)
def browser_panel(look: Look) -> None:
    rejected = some(newest_rejected(look), "No line was rejected in this range.")
    reasons = sorted({r for row in rejected["reasons"] if row is not None for r in row})
    cells = st.columns([1, 2])
    reason = cells[0].selectbox("Reason", ["Any", *reasons], key="rejected-reason")
    text = cells[1].text_input("Line contains", key="rejected-text", placeholder="part of the raw line")
    if reason not in (None, "Any"):
        rejected = rejected[[row is not None and reason in row for row in rejected["reasons"]]]
    if text:
        rejected = rejected[[text in shown(v) for v in rejected["value"]]]
    rejected = some(rejected.head(REJECTED_SHOWN), "No rejected line fits.")
    table, columns = rejected_table(rejected, look)
    full = table.assign(line=[shown(v) for v in rejected["value"]])
    picked = grid(table, "rejected", columns, rows=12, download=full, select=True)
    if picked is not None:
        st.code(full["line"].iloc[picked], language=None, wrap_lines=True)
