"""How alert rules stand, and what fired, when and why, as the pipeline recorded it."""

from __future__ import annotations

import pandas as pd

from tidemark.figures import conditions
from tidemark.figures.query import AnyOf, Condition, Where, query
from tidemark.figures.rows import Rows, if_any
from tidemark.figures.selection import Selection

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
    rows_of_rules = if_any(
        rows, query(RULES, RULE_COLUMNS, conditions.of_site(selection), order_by=["rule", "site"])
    )
    order = rows_of_rules["state"].map({"firing": 0, "unknown": 1}).fillna(2)
    return rows_of_rules.assign(order=order).sort_values("order", kind="stable").drop(columns="order")


def alerts(rows: Rows, selection: Selection) -> pd.DataFrame:
    """The columns COLUMNS of the alerts that fired or still did in the range, newest first."""
    where: list[Condition] = list(
        conditions.within(Selection(selection.site, end=selection.end), "window_start")
    )
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
    return if_any(rows, query(ALERTS, COLUMNS, where, order_by=["-window_start", "rule", "site"]))
