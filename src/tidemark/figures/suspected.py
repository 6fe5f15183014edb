"""Visitors that behave like bots on a day (UTC) without saying so: flagged and shown beside, never left out.

A day of a visitor is suspected if the visitor a) asked for /robots.txt, b) viewed at least 30 pages without any asset
while other people of the site loaded assets on that day, c) viewed more than 60 pages within one minute, d) made at
least 10 requests, all of which ended with 404, or e) came from a network of hosting and viewed at least 3 pages without
any asset while other people of the site loaded assets. It is computed whenever it is read, so a later line may lift it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tidemark.figures import conditions, daily, silver
from tidemark.figures.query import (
    AllOf,
    AnyOf,
    Columns,
    Condition,
    Exists,
    Related,
    Where,
    distinct_values,
    query,
    total,
)
from tidemark.figures.reader import frame
from tidemark.figures.rows import Rows, ordered
from tidemark.figures.selection import Selection
from tidemark.figures.zones import midnight

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = "silver/visitor_days"
VIEWS_WITHOUT_ASSETS = 30
VIEWS_PER_MINUTE = 60
NOT_FOUND = 10
VIEWS_FROM_HOSTING = 3
COLUMNS = (
    "day",
    "site",
    "visitor_id",
    "requests",
    "pageviews",
    "assets",
    "not_found",
    "robots_txt",
    "hosting",
)
DAY = timedelta(days=1)


def suspected(rows: Rows, selection: Selection, *, counted: bool = False) -> pd.DataFrame:
    """The suspected days, newest and most requests first: columns COLUMNS and `reasons`, such as "a c".

    The range is widened to whole days. Of the filters, only those apply whose fields a visitor has once: country,
    device, browser, os, network, as_org and city. `counted`: the days are only counted, and shown to nobody.
    """
    by_day: Columns = {"site": "site", "day": "day", "of_all": total("assets")}
    assets = rows(query(TABLE, by_day, _days(selection), group_by=["site", "day"]))
    # Whoever is suspected meets one of these, so that only their rows are read.
    candidates = AnyOf(
        (
            Where("robots_txt", ">", 0),
            Where("pageviews", ">=", VIEWS_WITHOUT_ASSETS),
            Where("not_found", ">=", NOT_FOUND),
            AllOf((Where("hosting", ">", 0), Where("pageviews", ">=", VIEWS_FROM_HOSTING))),
        )
    )
    kept = (*_where(selection), candidates)
    days = rows.reader.arrow(query(TABLE, (*COLUMNS, "minutes"), kept, counted=counted))
    if not days.num_rows:
        return pd.DataFrame(columns=pd.Index([*COLUMNS, "reasons"]))
    days_of = frame(days.drop_columns(["minutes"])).merge(assets, on=["site", "day"], how="left")
    others = days_of["of_all"] - days_of["assets"]
    no_assets = (days_of["assets"] == 0) & (others > 0)
    rules = {
        "a": days_of["robots_txt"] > 0,
        "b": (days_of["pageviews"] >= VIEWS_WITHOUT_ASSETS) & no_assets,
        "c": _most_per_minute(days["minutes"]) > VIEWS_PER_MINUTE,
        "d": (days_of["requests"] >= NOT_FOUND) & (days_of["not_found"] == days_of["requests"]),
        "e": (days_of["hosting"].fillna(0) > 0) & (days_of["pageviews"] >= VIEWS_FROM_HOSTING) & no_assets,
    }
    # Few combinations of many days: each is made a text once.
    flags = [np.asarray(flag, bool) for flag in rules.values()]
    combination = sum(flag.astype(int) << place for place, flag in enumerate(flags))
    texts = [
        " ".join(name for place, name in enumerate(rules) if number >> place & 1)
        for number in range(1 << len(rules))
    ]
    days_of["reasons"] = np.array(texts, object)[combination]
    days_of = days_of[days_of["reasons"] != ""].drop(columns="of_all")
    return ordered(days_of, ["-day", "-requests", "site", "visitor_id"])


def people(rows: Rows, selection: Selection) -> pd.DataFrame:
    """All people per day of the selection, in the order of days: columns `day`, `visitors`, `requests`, `pageviews`."""
    sums: Columns = {"day": "day", "visitors": distinct_values("visitor_id")}
    sums |= {name: total(name) for name in ("requests", "pageviews")}
    wanted = query(TABLE, sums, _where(selection), group_by=["day"], order_by=["day"])
    return daily.counted(rows, wanted, "day")


def beside(rows: Rows, selection: Selection) -> pd.DataFrame:
    """People with and without the suspected, per day: the columns of `people`, and `without_visitors`,
    `without_requests`, `without_pageviews` for what remains without suspected days."""
    days, left_out = people(rows, selection), suspected(rows, selection, counted=True)
    sums = left_out.groupby("day").agg(
        visitors=("visitor_id", "nunique"), requests=("requests", "sum"), pageviews=("pageviews", "sum")
    )
    sums = sums.reindex(days["day"], fill_value=0).reset_index(drop=True)
    return days.assign(**{f"without_{name}": days[name] - sums[name] for name in sums.columns})


def by_reason(days: pd.DataFrame) -> pd.DataFrame:
    """Of suspected days (the result of `suspected`), columns `reason` (a letter), `days`, `visitors`, `requests` and
    `pageviews`; a day of several reasons counts for each."""
    each = days.assign(reason=days["reasons"].str.split(" ")).explode("reason")
    sums = each.groupby("reason", as_index=False).agg(
        days=("day", "size"),
        visitors=("visitor_id", "nunique"),
        requests=("requests", "sum"),
        pageviews=("pageviews", "sum"),
    )
    return sums.sort_values("reason", ignore_index=True)


def _where(selection: Selection) -> tuple[Condition, ...]:
    once = [f for f in selection.filters if f.field in conditions.OF_VISITOR | conditions.OF_ADDRESS]
    if not once:
        return _days(selection)
    same: Related = (("site", "=", "site"), ("visitor_id", "=", "visitor_id"), ("event_time", ">=", "day"))
    bound = () if selection.start is None else (Where("event_time", ">=", midnight(selection.start)),)
    visitor = Exists(silver.REQUESTS, same, (*bound, *conditions.passing(once)))
    return (*_days(selection), visitor)


def _days(selection: Selection) -> tuple[Where, ...]:
    start, end = selection.start, selection.end
    lower = () if start is None else (Where("day", ">=", midnight(start)),)
    upper = () if end is None else (Where("day", "<", midnight(end - timedelta(microseconds=1)) + DAY),)
    return (*conditions.of_site(selection), *lower, *upper)


def _most_per_minute(minutes: pa.ChunkedArray) -> np.ndarray:
    """The largest value of each map, 0 for an empty one."""
    most: list[int] = []
    for maps in minutes.chunks:
        offsets = maps.offsets.to_numpy()
        values = np.append(maps.items.to_numpy(), 0)
        lengths = np.diff(offsets)
        highest = np.maximum.reduceat(values, offsets[:-1]) if len(lengths) else values[:0]
        most.extend(np.where(lengths > 0, highest, 0))
    return np.array(most, np.int64)
