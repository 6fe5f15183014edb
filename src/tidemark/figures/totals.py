"""The main figures of all lines of a home, which `tidemark view` shows. Tables that do not exist yet count as empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tidemark.figures import silver
from tidemark.figures.extents import SITES
from tidemark.figures.measures import COUNTRIES, LINES, PAGES, TRAFFIC, measured
from tidemark.figures.query import Columns, count, greatest, least, query, total
from tidemark.figures.rows import Rows, if_any
from tidemark.figures.selection import Selection

MOST_PAGES = 100
ACCOUNTS, REJECTED = "quality/accounts", "silver/rejected"
CLASSES = ("2xx", "3xx", "4xx", "5xx")
COUNTS = ("requests", "pageviews", "visitors", "bot_requests")
BY_COUNTRY = ("visitors", "pageviews", "requests")
Totals = dict[str, Any]


def of_lines(rows: Rows) -> Totals:
    """The figures that are committed together with the lines: `lines`, of which `requests` were accepted, `rejected`
    and `duplicates`; `pageviews`, `visitors`, `bot_requests`; `countries`, most visitors first; `first_event_time` and
    `newest_event_time` (ISO 8601, None without lines). Raises TableError."""
    lines = _sums(rows, ACCOUNTS, ["received", "rejected", "duplicate"])
    times = if_any(
        rows, query(SITES, {"first": least("first_event_time"), "newest": greatest("newest_event_time")})
    )
    counts, countries = _counted(rows, COUNTS), _counted(rows, BY_COUNTRY, by=["country"])
    countries = countries.sort_values(["visitors", "requests", "country"], ascending=[False, False, True])
    return {
        "lines": lines["received"],
        "requests": int(counts["requests"].sum()),
        "rejected": lines["rejected"],
        "duplicates": lines["duplicate"],
        **{name: int(counts[name].sum()) for name in COUNTS[1:]},
        "first_event_time": _moment(times["first"]),
        "newest_event_time": _moment(times["newest"]),
        "countries": countries[["country", *BY_COUNTRY]].to_dict("records"),
    }


def of_activity(rows: Rows) -> Totals:
    """The figures that follow a moment later: `sessions`, `statuses` (requests by class), `bytes`, and `pages`, the
    MOST_PAGES with the most pageviews. Raises TableError."""
    traffic = _sums(rows, TRAFFIC.table, ["bytes", *(f"status_{name}" for name in CLASSES)])
    columns: Columns = {"path": "path", "pageviews": total("pageviews")}
    pages = query(PAGES.table, columns, group_by=["path"], order_by=["-pageviews", "path"], limit=MOST_PAGES)
    return {
        "sessions": int(if_any(rows, query(silver.SESSIONS, {"n": count()}))["n"].sum()),
        "statuses": {name: traffic[f"status_{name}"] for name in CLASSES},
        "bytes": traffic["bytes"],
        "pages": if_any(rows, pages).to_dict("records"),
    }


def reasons(rows: Rows, most: int = 3) -> list[tuple[str, int]]:
    """The rules that most rejected lines break, and the number of these lines. Raises TableError."""
    columns: Columns = {"reasons": "reasons", "lines": count()}
    broken: Counter[str] = Counter()
    rejected = if_any(rows, query(REJECTED, columns, group_by=["reasons"]))
    for names, lines in rejected[["reasons", "lines"]].itertuples(index=False):
        broken.update(dict.fromkeys(names, int(lines)))
    return broken.most_common(most)


def _counted(rows: Rows, names: Sequence[str], by: Sequence[str] = ()) -> pd.DataFrame:
    if rows.reader.version(COUNTRIES.table) is None:
        return pd.DataFrame({name: [] for name in (*by, *names)})
    return measured(rows, Selection(), LINES, [COUNTRIES], names, by=by)


def _sums(rows: Rows, table: str, names: Sequence[str]) -> dict[str, int]:
    sums = if_any(rows, query(table, {name: total(name) for name in names}))
    return {name: int(sums[name].sum()) for name in names}


def _moment(times: pd.Series) -> str | None:
    known = times.dropna()
    return known.iloc[0].isoformat() if len(known) else None
