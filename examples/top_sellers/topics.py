"""What the shop sends: sales, and what its catalogue says of its products."""

from __future__ import annotations

from examples.kit.events import Events

# A refund takes back some of what was bought, in the hour in which it was bought: `event_time` is the purchase's.
SALES = Events(
    "sales",
    "order string, kind string, product string, quantity long, event_time timestamp",
    rules={"known_kind": "kind IN ('purchase', 'refund')", "positive_quantity": "quantity > 0"},
)
# What a product is called and costs from `valid_from`, a whole minute, on.
CATALOGUE = Events(
    "catalogue",
    "product string, name string, price_cents long, valid_from timestamp",
    rules={
        "price_not_negative": "price_cents >= 0",
        "whole_minute": "date_trunc('MINUTE', valid_from) = valid_from",
    },
    partitions=1,
)
