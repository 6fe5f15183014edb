"""Counts of lines and of sessions, grouped by columns and time, from the cheapest table that has them.

Without filters a gold table answers; with filters of its key's fields, it does, too. Anything else is counted from
silver, bounded by the range. Both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pandas as pd

from tidemark.figures import conditions, daily, silver, visitors
from tidemark.figures.bins import Bins, bins_of, in_utc
from tidemark.figures.extents import extents, of_site
from tidemark.figures.query import (
    Columns,
    Condition,
    Expression,
    Query,
    Where,
    count,
    count_true,
    distinct_values,
    filled,
    greatest,
    query,
    total,
)
from tidemark.figures.rows import Rows, ordered
from tidemark.figures.selection import Selection
from tidemark.figures.silver import PEOPLE
from tidemark.figures.visitors import Grouping


@dataclass(frozen=True)
class Base:
    """A silver table, its measures by name, and its conditions for a selection. `columns` are those to group by that
    gold has in another form.

    `golds` are the gold tables that have the measures, `only` the conditions that hold for every row of them. `few`:
    distinct values of silver can be kept by day.
    """

    table: str
    time: str
    measures: Mapping[str, Expression]
    where: Callable[[Selection, Rows], tuple[Condition, ...]]
    columns: Mapping[str, Expression] = field(default_factory=dict)
    golds: tuple[Gold, ...] = ()
    only: tuple[Condition, ...] = ()
    few: bool = False

    def of(self, *golds: Gold, only: tuple[Condition, ...] = ()) -> Base:
        """The same measures as these gold tables have them."""
        return replace(self, golds=golds, only=only)

    def grouped(self, name: str) -> str | Expression:
        """The column to group by in the form that gold has."""
        return self.columns.get(name, name if name in NEVER_NULL else filled(name))


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
        bot_values = [conditions.bots_of(f) for f in selection.filters if f.field not in self.fields]
        bots = tuple(Where("bot", "=", bot) for bot in bot_values)
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
    whole = selection.aligned(gold.seconds) and (bins is None or bins.consist_of(gold.seconds))
    return whole and _knows(gold, selection) and rows.reader.version(gold.table) is not None


def _knows(gold: Gold, selection: Selection) -> bool:
    """Whether the key of a gold table has what the filters of a selection are about."""
    known = (
        f.field in gold.fields or (gold.bot and conditions.bots_of(f) is not None) for f in selection.filters
    )
    return not selection.recount and all(known)


def split(rows: Rows, gold: Gold, selection: Selection, bins: Bins | None = None) -> tuple[Selection, ...]:
    """Parts of a selection whose figures together are its own: whole windows, which a gold table has, and what lies
    before and after them. The selection itself where that is of no use."""
    start, end = selection.start, selection.end
    if selection.aligned(gold.seconds) or not _knows(gold, selection):
        return (selection,)
    extent = of_site(extents(rows), selection.site)
    # Where a site has no lines beyond a bound, the window around it lies in the range as a whole.
    first = start and _window(start, gold.seconds, up=extent.first is None or extent.first < start)
    last = end and _window(end, gold.seconds, up=extent.newest is not None and extent.newest < end)
    whole = replace(selection, start=first, end=last)
    if (first and last and first >= last) or not has(rows, gold, whole, bins):
        return (selection,)
    before = [replace(selection, end=first)] if start and first and start < first else []
    after = [replace(selection, start=last)] if end and last and last < end else []
    return (*before, whole, *after)


def _window(moment: datetime, seconds: int, *, up: bool) -> datetime:
    """The end, or the begin, of the window of so many seconds in which a moment lies."""
    time = moment.timestamp()
    return datetime.fromtimestamp((-(-time // seconds) if up else time // seconds) * seconds, UTC)


@dataclass(frozen=True)
class _Measures:
    """The measures `names` of `base`, by what they are grouped, and the rest as for `measured`."""

    base: Base
    names: tuple[str, ...]
    by: tuple[str, ...] = ()
    bins: Bins | None = None
    where: tuple[Condition, ...] = ()
    order_by: tuple[str, ...] = ()
    limit: int | None = None

    @property
    def groups(self) -> list[str]:
        return [*(["bin"] if self.bins else []), *self.by]

    @property
    def sums(self) -> tuple[str, ...]:
        """The measures that add up."""
        return tuple(name for name in self.names if name != "visitors")

    def query(self, table: str, time: str, columns: Columns, where: tuple[Condition, ...]) -> Query:
        """The query of a table, with the bins of its column `time`."""
        binned: Columns = {"bin": self.bins.of(time)} if self.bins else {}
        return query(
            table, binned | columns, where, group_by=self.groups, order_by=self.order_by, limit=self.limit
        )

    def with_visitors(self, sums: pd.DataFrame, visitors: pd.DataFrame) -> pd.DataFrame:
        """The sums and the visitors of the same groups."""
        if self.groups:
            joined = sums.merge(visitors, on=self.groups, how="left")
        else:
            joined = sums.assign(visitors=visitors["visitors"])
        counts = joined["visitors"].fillna(0).astype("int64")
        return joined.assign(visitors=counts)[[*self.groups, *self.names]]


def measured(
    rows: Rows,
    selection: Selection,
    base: Base,
    names: Sequence[str],
    *,
    by: Sequence[str] = (),
    bin_seconds: int | None = None,
    where: Sequence[Condition] = (),
    order_by: Sequence[str] = (),
    limit: int | None = None,
) -> pd.DataFrame:
    """The measures `names` of a selection, by the columns `by` and, with `bin_seconds`, by time: `bin` is the beginning
    (UTC) of a bin of the selection's zone.

    The first of the base's `golds` that fits answers. If none does because the range has parts of windows, silver
    answers these parts only. Otherwise silver answers. `where` are further conditions, on columns that silver and gold
    both have. `order_by` and `limit` speak of the columns that come out, not of `visitors`. Without grouping there is
    one row.
    """
    bins = None if bin_seconds is None else bins_of(rows, selection, bin_seconds)
    measures = _Measures(base, tuple(names), tuple(by), bins, tuple(where), tuple(order_by), limit)
    gold, parts = _answering(rows, base.golds, selection, bins)
    if gold is None:
        result = _from_silver(rows, selection, measures)
    elif len(parts) == 1:
        result = _from_gold(rows, gold, parts[0], measures)
    else:
        result = _added(rows, gold, parts, measures)
    return in_utc(result, bins)


def _answering(
    rows: Rows, golds: Sequence[Gold], selection: Selection, bins: Bins | None
) -> tuple[Gold | None, tuple[Selection, ...]]:
    """The gold table that answers a selection or the whole windows in it, None without one, and the parts."""
    for gold in golds:
        if has(rows, gold, selection, bins):
            return gold, (selection,)
    for gold in golds:
        parts = split(rows, gold, selection, bins)
        if parts != (selection,):
            return gold, parts
    return None, (selection,)


def _from_gold(rows: Rows, gold: Gold, selection: Selection, measures: _Measures) -> pd.DataFrame:
    grouping = Grouping(measures.by, measures.bins, gold.time)
    kept = (*gold.where(selection), *measures.where)
    columns: Columns = {name: name for name in measures.by}
    columns |= {name: greatest(name) if name in NEWEST else total(name) for name in measures.sums}
    if not columns and not measures.bins:
        return visitors.distinct(rows, gold.table, kept, grouping)
    counted = rows(measures.query(gold.table, gold.time, columns, kept))
    if "visitors" not in measures.names:
        return counted
    # A list with all values has the unions of every list with all values.
    if measures.limit is not None and measures.by and len(counted) >= measures.limit:
        kept = (*kept, Where(measures.by[0], "in", tuple(counted[measures.by[0]].unique().tolist())))
    return measures.with_visitors(counted, visitors.distinct(rows, gold.table, kept, grouping))


def _from_silver(rows: Rows, selection: Selection, measures: _Measures) -> pd.DataFrame:
    base = measures.base
    columns: Columns = {name: base.grouped(name) for name in measures.by}
    columns |= {name: base.measures[name] for name in measures.names}
    kept = (*base.where(selection, rows), *measures.where, *base.only)
    wanted = measures.query(base.table, base.time, columns, kept)
    return daily.counted(rows, wanted, base.time, few=base.few)


def _added(rows: Rows, gold: Gold, parts: Sequence[Selection], measures: _Measures) -> pd.DataFrame:
    """The figures of parts of a selection together."""
    grouping = Grouping(measures.by, measures.bins, gold.time)
    summed = replace(measures, names=measures.sums, order_by=(), limit=None)
    frames, unions = [], []
    for part in parts:
        whole = has(rows, gold, part, measures.bins)
        if measures.sums or measures.groups:
            frames.append(
                _from_gold(rows, gold, part, summed) if whole else _numbered(_from_silver(rows, part, summed))
            )
        if "visitors" in measures.names:
            kept = (*gold.where(part), *measures.where)
            unions.append(
                visitors.united(rows, gold.table, kept, grouping)
                if whole
                else _ids(rows, part, measures, grouping)
            )
    people = visitors.counts(visitors.merged(unions), grouping) if unions else None
    if not frames and people is not None:
        return people
    sums = ordered(_summed(frames, measures), measures.order_by, measures.limit)
    return sums if people is None else measures.with_visitors(sums, people)


def _numbered(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of silver with the status 0 where it is missing, as gold has it."""
    return rows.assign(status=rows["status"].fillna(0).astype("int64")) if "status" in rows else rows


def _summed(frames: Sequence[pd.DataFrame], measures: _Measures) -> pd.DataFrame:
    """The sums of the rows of all frames by group."""
    how = {name: "max" if name in NEWEST else "sum" for name in measures.sums}
    every = pd.concat([each for each in frames if len(each)] or frames[:1], ignore_index=True)
    if not measures.groups:
        return pd.DataFrame({name: [every[name].agg(of)] for name, of in how.items()})
    if not how:
        return every.drop_duplicates(ignore_index=True)
    return every.groupby(measures.groups, as_index=False, sort=False, dropna=False).agg(how)


def _ids(rows: Rows, selection: Selection, measures: _Measures, grouping: Grouping) -> visitors.United:
    """The visitors of a selection by single ids from silver."""
    base = measures.base
    measure = base.measures["visitors"]
    columns: Columns = {"site": "site", "visitor": measure.column}
    columns |= {"start": measures.bins.of(base.time)} if measures.bins else {}
    columns |= {name: base.grouped(column) for name, column in zip(grouping.names, measures.by, strict=True)}
    kept = (*base.where(selection, rows), *measures.where, *base.only, *measure.when)
    there = Where(measure.column, "!=", "")
    wanted = query(base.table, columns, (*kept, there), group_by=list(columns), counted=True)
    return visitors.of_ids(rows.reader.arrow(wanted), grouping)


# Columns of silver that are no text, or never NULL; in a gold key what is missing is the empty text.
NEVER_NULL = frozenset({"site", "status", "bot", "country", "visitor_id", "latency_bucket"})
# Measures that are the greatest of several rows, not their sum.
NEWEST = frozenset({"newest_event_time"})
