"""The main figures of all lines of a home, which `tidemark view` shows. Tables that do not exist yet count as empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tidemark.figures import silver
from tidemark.figures.bots import BOTS, bots
from tidemark.figures.extents import SITES
from tidemark.figures.latency import PAGE_LATENCY, slowest_pages
from tidemark.figures.measures import COUNTRIES, LINES, PAGES, TRAFFIC, measured
from tidemark.figures.query import Columns, count, greatest, least, query, total
from tidemark.figures.rows import Rows, if_any, ordered
from tidemark.figures.selection import Selection

MOST_PAGES, MOST_BOTS, MOST_SLOW_PAGES = 100, 20, 20
# Pages with fewer timed requests are not among the slowest.
LEAST_TIMED = 10
ACCOUNTS, REJECTED = "quality/accounts", "silver/rejected"
CLASSES = ("2xx", "3xx", "4xx", "5xx")
COUNTS = ("requests", "pageviews", "visitors", "bot_requests")
BY_COUNTRY = ("visitors", "pageviews", "requests")


def totals(rows: Rows) -> dict[str, Any]:
    """`lines`, of which `requests` were accepted, `rejected` and `duplicates`; `pageviews`, `visitors`, `sessions`,
    `bot_requests`, `bytes`; `first_event_time` and `newest_event_time` (ISO 8601, None without lines); `countries`,
    most visitors first; `statuses`, requests by class; `pages`, the MOST_PAGES with the most pageviews; `bots`, the
    MOST_BOTS with the most requests; `slowest_pages` by p95, in seconds; `reasons`, rejected lines by the rule that
    they break. Raises TableError."""
    lines = _sums(rows, ACCOUNTS, ["received", "rejected", "duplicate"])
    times = if_any(
        rows, query(SITES, {"first": least("first_event_time"), "newest": greatest("newest_event_time")})
    )
    counts, countries = _counted(rows, COUNTS), _counted(rows, BY_COUNTRY, by=["country"])
    countries = ordered(countries, ["-visitors", "-requests", "country"])
    traffic = _sums(rows, TRAFFIC.table, ["bytes", *(f"status_{name}" for name in CLASSES)])
    columns: Columns = {"path": "path", "pageviews": total("pageviews")}
    pages = query(PAGES.table, columns, group_by=["path"], order_by=["-pageviews", "path"], limit=MOST_PAGES)
    return {
        "lines": lines["received"],
        "requests": int(counts["requests"].sum()),
        "rejected": lines["rejected"],
        "duplicates": lines["duplicate"],
        **{name: int(counts[name].sum()) for name in COUNTS[1:]},
        "sessions": int(if_any(rows, query(silver.SESSIONS, {"n": count()}))["n"].sum()),
        "bytes": traffic["bytes"],
        "first_event_time": _moment(times["first"]),
        "newest_event_time": _moment(times["newest"]),
        "countries": countries[["country", *BY_COUNTRY]].to_dict("records"),
        "statuses": {name: traffic[f"status_{name}"] for name in CLASSES},
        "pages": if_any(rows, pages).to_dict("records"),
        "bots": _bots(rows),
        "slowest_pages": _slowest(rows),
        "reasons": dict(_reasons(rows)),
    }


def _bots(rows: Rows) -> list[dict[str, Any]]:
    if rows.reader.version(BOTS.table) is None:
        return []
    listed = bots(rows, Selection(), MOST_BOTS)
    return _records(listed[["bot_name", "bot_kind", "requests"]])


def _slowest(rows: Rows) -> list[dict[str, Any]]:
    if rows.reader.version(PAGE_LATENCY.table) is None:
        return []
    return _records(slowest_pages(rows, Selection(), least=LEAST_TIMED, limit=MOST_SLOW_PAGES))


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _reasons(rows: Rows) -> list[tuple[str, int]]:
    """The rules that rejected lines break, and the number of these lines, most lines first."""
    columns: Columns = {"reasons": "reasons", "lines": count()}
    broken: Counter[str] = Counter()
    rejected = if_any(rows, query(REJECTED, columns, group_by=["reasons"]))
    for names, lines in rejected[["reasons", "lines"]].itertuples(index=False):
        broken.update(dict.fromkeys(names, int(lines)))
    return broken.most_common()


def _counted(rows: Rows, names: Sequence[str], by: Sequence[str] = ()) -> pd.DataFrame:
    if rows.reader.version(COUNTRIES.table) is None:
        return pd.DataFrame({name: [] for name in (*by, *names)})
    return measured(rows, Selection(), LINES.of(COUNTRIES), names, by=by)


def _sums(rows: Rows, table: str, names: Sequence[str]) -> dict[str, int]:
    sums = if_any(rows, query(table, {name: total(name) for name in names}))
    return {name: int(sums[name].sum()) for name in names}


def _moment(times: pd.Series) -> str | None:
    known = times.dropna()
    return known.iloc[0].isoformat() if len(known) else None
