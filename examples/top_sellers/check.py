"""Recounts totals and top tens sale by sale, without Spark or pandas."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from examples.kit.load import Event, Load
from examples.kit.results import Results, differences
from examples.top_sellers.generator import events
from examples.top_sellers.tables import TOP, TOP_TEN, TOTALS
from examples.top_sellers.topics import SALES

SECONDS = {"hour": 3_600, "day": 86_400}
# period, epoch second of its start, product
Key = tuple[str, float, str]


class Total(NamedTuple):
    """Of a product in a window."""

    units: int
    revenue_cents: int


def truth(sent: Iterable[Event]) -> tuple[dict[Key, Total], dict[Key, tuple[int, str | None]]]:
    """Totals, and (rank, name) of the top ten."""
    sold: Counter[tuple[float, str]] = Counter()
    catalogue: defaultdict[str, dict[float, tuple[str, int]]] = defaultdict(dict)
    for event in sent:
        if event.reason:
            continue
        fields = json.loads(event.value)
        if event.topic == SALES.topic:
            sign = -1 if fields["kind"] == "refund" else 1
            sold[_seconds(fields["event_time"]) // 60 * 60, fields["product"]] += sign * fields["quantity"]
        else:
            entry = fields["name"], fields["price_cents"]
            catalogue[fields["product"]][_seconds(fields["valid_from"])] = entry
    totals = _totals(sold, catalogue)
    return totals, _ranks(totals, catalogue)


def _totals(
    sold: Counter[tuple[float, str]], catalogue: dict[str, dict[float, tuple[str, int]]]
) -> dict[Key, Total]:
    totals: dict[Key, Total] = {}
    for (minute, product), units in sold.items():
        times = sorted(catalogue.get(product, {}))
        place = bisect_right(times, minute)
        price = catalogue[product][times[place - 1]][1] if place else 0
        for period, length in SECONDS.items():
            key = period, minute // length * length, product
            before = totals.get(key, Total(0, 0))
            totals[key] = Total(before.units + units, before.revenue_cents + units * price)
    return totals


def _ranks(
    totals: dict[Key, Total], catalogue: dict[str, dict[float, tuple[str, int]]]
) -> dict[Key, tuple[int, str | None]]:
    ranks: dict[Key, tuple[int, str | None]] = {}
    windows: defaultdict[tuple[str, float], list[tuple[int, str]]] = defaultdict(list)
    for (period, start, product), total in totals.items():
        if total.units > 0:
            windows[period, start].append((total.units, product))
    for (period, start), sellers in windows.items():
        for units, product in sellers:
            rank = 1 + sum(other > units for other, _ in sellers)
            if rank <= TOP:
                times = sorted(catalogue.get(product, {}))
                place = bisect_left(times, start + SECONDS[period])
                name = catalogue[product][times[place - 1]][0] if place else None
                ranks[period, start, product] = rank, name
    return ranks


def check(load: Load, results: Results) -> Iterator[str]:
    """Differences from the expected results."""
    totals, ranks = truth(events(load))
    rows = results.table(TOTALS).to_pylist()
    yield from differences("total", totals, {_key(r): Total(r["units"], r["revenue_cents"]) for r in rows})
    top = results.table(TOP_TEN).to_pylist()
    yield from differences("rank", ranks, {_key(row): (row["rank"], row["name"]) for row in top})
    yield from differences(
        "total in the top ten",
        {key: totals[key] for key in ranks},
        {_key(r): Total(r["units"], r["revenue_cents"]) for r in top},
    )


def _key(row: dict[str, Any]) -> Key:
    return row["period"], row["window_start"].timestamp(), row["product"]


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
