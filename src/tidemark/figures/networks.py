"""Networks that requests come from: kinds of networks, organisations, cities."""

from __future__ import annotations

import pandas as pd

from tidemark.figures.counted import Counted
from tidemark.figures.measures import LINES, NETWORKS, measured
from tidemark.figures.query import Where
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

NAMES = ("requests", "pageviews", "visitors")
KEY = ("network", "as_org")
COUNTED = Counted("requests", KEY, LINES, (NETWORKS,))


def networks(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """Columns `network` (hosting, cdn, crawler, relay or empty), `as_org` (empty where it is not known), `requests`,
    `pageviews`, `visitors`; most requests first."""
    order = ["-requests", *KEY]
    return measured(rows, selection, LINES, (NETWORKS,), NAMES, by=KEY, order_by=order, limit=limit)


def over_time(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `network`, `requests`, of the kinds that the lists have."""
    listed = (Where("network", "!=", ""),)
    return measured(
        rows,
        selection,
        LINES,
        (NETWORKS,),
        ["requests"],
        by=["network"],
        bin_seconds=bin_seconds,
        where=listed,
    )


def cities(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """People by place: columns `city`, `region`, `country`, `visitors`, `requests`, of requests whose city is known;
    most requests first."""
    by = ["city", "region", "country"]
    known = (Where("city", "is not null"), Where("bot", "=", False))
    return measured(
        rows,
        selection,
        LINES,
        (),
        ["visitors", "requests"],
        by=by,
        where=known,
        order_by=["-requests", *by],
        limit=limit,
    )
