"""The shop's topics: sales, and the catalogue of its products."""

from __future__ import annotations

from examples.kit.events import Events
from tidemark.contract.expression import column
from tidemark.contract.rules import RejectingRule

# A refund takes back some of what was bought, in the hour in which it was bought: `event_time` is the purchase's.
SALES = Events(
    "sales",
    "order string, kind string, product string, quantity long, event_time timestamp",
    rules=(
        RejectingRule(
            "known_kind", column("kind").isin(["purchase", "refund"]), "kind", "A purchase or a refund."
        ),
        RejectingRule("positive_quantity", column("quantity") > 0, "quantity", "Something was sold."),
    ),
)
# What a product is called and costs from `valid_from`, a whole minute, on.
CATALOGUE = Events(
    "catalogue",
    "product string, name string, price_cents long, valid_from timestamp",
    rules=(
        RejectingRule("price_not_negative", column("price_cents") >= 0, "price_cents", "A price, or free."),
        RejectingRule(
            "whole_minute", column("valid_from").micros() % 60_000_000 == 0, "valid_from", "A whole minute."
        ),
    ),
    partitions=1,
)
