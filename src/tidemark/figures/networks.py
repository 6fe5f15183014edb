"""Networks that requests come from: kinds of networks, organisations, cities."""

from __future__ import annotations

import pandas as pd

from tidemark.figures.counted import Counted
from tidemark.figures.measures import LINES, NETWORKS, measured
from tidemark.figures.query import Where
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import PEOPLE

NAMES = ("requests", "pageviews", "visitors")
KEY = ("network", "as_org")
_NETWORKS = LINES.of(NETWORKS)
COUNTED = Counted("requests", KEY, _NETWORKS)


def networks(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """Columns `network` (hosting, cdn, crawler, relay or empty), `as_org` (empty where it is not known), `requests`,
    `pageviews`, `visitors`; most requests first."""
    order = ["-requests", *KEY]
    return measured(rows, selection, _NETWORKS, NAMES, by=KEY, order_by=order, limit=limit)


def over_time(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `network`, `requests`, of the kinds that the lists have."""
    listed = (Where("network", "!=", ""),)
    return measured(
        rows, selection, _NETWORKS, ["requests"], by=["network"], bin_seconds=bin_seconds, where=listed
    )


def cities(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """People by place: columns `city`, `region`, `country`, `visitors`, `requests`, of requests whose city is known;
    most requests first."""
    by = ["city", "region", "country"]
    known = LINES.of(only=(Where("city", "is not null"), PEOPLE))
    order = ["-requests", *by]
    return measured(rows, selection, known, ["visitors", "requests"], by=by, order_by=order, limit=limit)
