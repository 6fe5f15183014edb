"""The top tens as they change, as lines of text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC
from typing import Any

from examples.kit.results import Results
from examples.top_sellers.tables import TOP_TEN


def show(results: Results) -> Iterator[str]:
    """For each hour and day whose top ten changed, what it is now: rank, product and units."""
    changed = {(row["period"], row["window_start"]) for row in results.fresh(TOP_TEN).to_pylist()}
    if not changed:
        return
    windows: defaultdict[tuple[str, Any], list[dict[str, Any]]] = defaultdict(list)
    for row in results.table(TOP_TEN).to_pylist():
        windows[row["period"], row["window_start"]].append(row)
    for period, start in sorted(changed, key=lambda window: (window[1], window[0])):
        top = sorted(windows[period, start], key=lambda row: (row["rank"], row["product"]))
        ranks = "  ".join(f"{row['rank']}. {row['product']} {row['units']}" for row in top)
        revenue = sum(row["revenue_cents"] for row in top) / 100
        yield f"{period:<4} {start.astimezone(UTC):%d %b %H:%M}  {ranks}  (revenue {revenue:,.2f})"
