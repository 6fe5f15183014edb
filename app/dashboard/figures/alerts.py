"""How alert rules stand, and what fired, when and why, as the pipeline recorded it."""

from __future__ import annotations

import pandas as pd

from . import conditions
from .query import AnyOf, Query, Where, query
from .reader import MissingTableError
from .rows import Rows
from .selection import Selection

RULES, ALERTS = "quality/alert_rules", "quality/alerts"
RULE_COLUMNS = (
    "rule",
    "site",
    "state",
    "value",
    "bound",
    "judged_from",
    "judged_until",
    "about",
    "definition",
)
COLUMNS = (
    "rule", "site", "window_start", "window_end", "state", "ended_at", "metric", "value", "bound", "about", "late",
    "fired_at", "withdrawn_at", "due", "delivered", "delivered_at", "delivered_to", "failure", "definition",
)  # fmt: skip


def rules(rows: Rows, selection: Selection) -> pd.DataFrame:
    """The columns RULE_COLUMNS of each rule on the selection's site, those that fire first."""
    sites = () if selection.site is None else (Where("site", "=", selection.site),)
    found = _any(rows, query(RULES, RULE_COLUMNS, sites, order_by=["rule", "site"]))
    order = found["state"].map({"firing": 0, "unknown": 1}).fillna(2)
    return found.assign(order=order).sort_values("order", kind="stable").drop(columns="order")


def alerts(rows: Rows, selection: Selection) -> pd.DataFrame:
    """The columns COLUMNS of the alerts that fired or still did in the range, newest first."""
    where = list(conditions.within(Selection(selection.site, end=selection.end), "window_start"))
    if selection.start is not None:
        since = selection.start
        where.append(
            AnyOf(
                (
                    Where("window_start", ">=", since),
                    Where("ended_at", ">", since),
                    Where("state", "=", "firing"),
                )
            )
        )
    return _any(rows, query(ALERTS, COLUMNS, where, order_by=["-window_start", "rule", "site"]))


def _any(rows: Rows, q: Query) -> pd.DataFrame:
    """The rows; none where the table does not exist, because no rule was ever judged."""
    try:
        return rows(q)
    except MissingTableError:
        return pd.DataFrame({name: [] for name, _ in q.columns})
