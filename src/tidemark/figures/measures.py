"""Counts of lines and of sessions, grouped by columns and time, from the cheapest table that has them.

Without filters a gold table answers; with filters of its key's fields, it does, too. Anything else is counted from
silver, bounded by the range. Both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pandas as pd

from tidemark.figures import conditions, silver
from tidemark.figures.bins import Bins, bins_of, in_utc
from tidemark.figures.query import (
    Columns,
    Condition,
    Expression,
    Where,
    count,
    count_true,
    distinct_values,
    filled,
    greatest,
    query,
    total,
)
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import PEOPLE
from tidemark.figures.visitors import Grouping, distinct


@dataclass(frozen=True)
class Base:
    """A silver table, its measures by name, and its conditions for a selection. `columns` are those to group by that
    gold has in another form."""

    table: str
    time: str
    measures: Mapping[str, Expression]
    where: Callable[[Selection, Rows], tuple[Condition, ...]]
    columns: Mapping[str, Expression] = field(default_factory=dict)


LINES = Base(
    silver.REQUESTS,
    "event_time",
    {
        "requests": count(),
        "pageviews": count_true("pageview"),
        "visitors": distinct_values("visitor_id", PEOPLE),
        "bytes": total("bytes"),
        "bot_requests": count_true("bot"),
        "newest_event_time": greatest("event_time"),
        **{
            f"status_{c}xx": count(Where("status", ">=", c * 100), Where("status", "<", c * 100 + 100))
            for c in (2, 3, 4, 5)
        },
    },
    lambda selection, rows: conditions.of_lines(selection),
    conditions.OF_LINE,
)
SESSIONS = Base(
    silver.SESSIONS,
    "start_time",
    {
        "sessions": count(),
        "bounces": count_true("bounced"),
        "pageviews": total("pageviews"),
        "visitors": distinct_values("visitor_id"),
    },
    conditions.of_sessions,
)


@dataclass(frozen=True)
class Gold:
    """A gold table with counts per window of `seconds`, and which filters' fields its key has. With `bot` in it, the
    key tells bots from people."""

    table: str
    seconds: int
    fields: frozenset[str] = frozenset()
    bot: bool = False
    time: str = "window_start"

    def where(self, selection: Selection) -> tuple[Condition, ...]:
        """Conditions on the table's rows."""
        filters = [f for f in selection.filters if f.field in self.fields]
        asked = [conditions.bots_of(f) for f in selection.filters if f.field not in self.fields]
        bots = tuple(Where("bot", "=", bot) for bot in asked)
        return (*conditions.within(selection, self.time), *conditions.passing(filters), *bots)


TRAFFIC = Gold("gold/traffic", 60)
COUNTRIES = Gold("gold/visitors_by_country", 300, frozenset({"country"}))
PAGES = Gold("gold/pages", 3600, frozenset({"path"}))
AUDIENCE = Gold("gold/audience", 3600, frozenset({"country", "device", "browser", "os", "bot_kind"}))
NETWORKS = Gold("gold/networks", 3600, frozenset({"network", "as_org"}))
RESPONSES = Gold("gold/responses", 3600, frozenset({"status", "method", "host"}), bot=True)
SOURCES = Gold("gold/sources", 3600, frozenset({"channel", "source", "campaign"}))


def has(rows: Rows, gold: Gold, selection: Selection, bins: Bins | None = None) -> bool:
    """Whether a gold table has the figures of a selection in bins of this size. A home from before the table does not
    have it yet, and is counted from silver."""
    return _fits(gold, selection, bins) and rows.reader.version(gold.table) is not None


def _fits(gold: Gold, selection: Selection, bins: Bins | None) -> bool:
    whole = selection.aligned(gold.seconds) and (bins is None or bins.consist_of(gold.seconds))
    known = all(
        f.field in gold.fields or (gold.bot and conditions.bots_of(f) is not None) for f in selection.filters
    )
    return whole and known and not selection.recount


def split(rows: Rows, gold: Gold, selection: Selection) -> tuple[Selection, ...]:
    """Parts of a selection whose sums add up to its own: whole windows, which a gold table has, and what lies before
    and after them. The selection itself where that is of no use."""
    start, end = selection.start, selection.end
    if start is None or end is None:
        return (selection,)
    first, last = (datetime.fromtimestamp(n * gold.seconds, UTC) for n in (
        -(-start.timestamp() // gold.seconds), end.timestamp() // gold.seconds,
    ))  # fmt: skip
    if not first < last or not has(rows, gold, selection.shifted(first, last)):
        return (selection,)
    parts = ((start, first), (first, last), (last, end))
    return tuple(selection.shifted(a, b) for a, b in parts if a < b)


def measured(
    rows: Rows,
    selection: Selection,
    base: Base,
    golds: Sequence[Gold],
    names: Sequence[str],
    *,
    by: Sequence[str] = (),
    bin_seconds: int | None = None,
    where: Sequence[Condition] = (),
    silver_where: Sequence[Condition] = (),
    order_by: Sequence[str] = (),
    limit: int | None = None,
) -> pd.DataFrame:
    """The measures `names` of a selection, by the columns `by` and, with `bin_seconds`, by time: `bin` is the beginning
    (UTC) of a bin of the selection's zone.

    The first of `golds` that fits answers, otherwise silver does. `where` are further conditions, on columns that
    silver and gold both have; `silver_where` are those that hold for every row of gold anyway. `order_by` and `limit`
    speak of the columns that come out, not of `visitors`. Without grouping there is one row.
    """
    bins = None if bin_seconds is None else bins_of(rows, selection, bin_seconds)
    gold = next((g for g in golds if has(rows, g, selection, bins)), None)
    if gold is None:
        every = (*where, *silver_where)
        return _from_silver(rows, selection, base, names, by, bins, every, order_by, limit)
    kept = (*gold.where(selection), *where)
    sums = [name for name in names if name != "visitors"]
    columns: Columns = {"bin": bins.of(gold.time)} if bins else {}
    columns |= {name: name for name in by}
    groups = list(columns)
    columns |= {name: greatest(name) if name in NEWEST else total(name) for name in sums}
    if not columns:
        return united(rows, gold, kept, by, bins)
    found = rows(query(gold.table, columns, kept, group_by=groups, order_by=order_by, limit=limit))
    if "visitors" not in names:
        return in_utc(found, bins)
    # A list with all values has the unions of every list with all values.
    if limit is not None and by and len(found) >= limit:
        kept = (*kept, Where(by[0], "in", tuple(found[by[0]].unique().tolist())))
    visitors = united(rows, gold, kept, by, bins)
    if groups:
        found = found.merge(visitors, on=groups, how="left")
    else:
        found["visitors"] = visitors["visitors"]
    found = found.assign(visitors=found["visitors"].fillna(0).astype("int64"))[[*groups, *names]]
    return in_utc(found, bins)


def united(
    rows: Rows, gold: Gold, where: Sequence[Condition], by: Sequence[str] = (), bins: Bins | None = None
) -> pd.DataFrame:
    """The visitors of a gold table's rows, see `visitors.distinct`."""
    return distinct(rows, gold.table, where, Grouping(tuple(by), bins, gold.time))


def _from_silver(
    rows: Rows,
    selection: Selection,
    base: Base,
    names: Sequence[str],
    by: Sequence[str],
    bins: Bins | None,
    where: Sequence[Condition],
    order_by: Sequence[str],
    limit: int | None,
) -> pd.DataFrame:
    columns: Columns = {"bin": bins.of(base.time)} if bins else {}
    columns |= {n: base.columns.get(n, n if n in NEVER_NULL else filled(n)) for n in by}
    groups = list(columns)
    columns |= {name: base.measures[name] for name in names}
    kept = (*base.where(selection, rows), *where)
    found = rows(query(base.table, columns, kept, group_by=groups, order_by=order_by, limit=limit))
    return in_utc(found, bins)


# Columns of silver that are no text, or never NULL; in a gold key what is missing is the empty text.
NEVER_NULL = frozenset({"site", "status", "bot", "country", "visitor_id", "latency_bucket"})
# Measures that are the greatest of several rows, not their sum.
NEWEST = frozenset({"newest_event_time"})
