"""Sites whose requests seem to come from a proxy, because their lines do not have the client behind it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pyarrow as pa

from tidemark.contract.expression import column
from tidemark.contract.measure import Scan, unfulfilled
from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.parse.networks import lists_of

# The newest requests that are read: of the longest time with at most so many of them, else of the shortest.
_TIMES = (timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1))
_MOST_ROWS = 500_000
# A site with fewer requests is left out.
_LEAST_REQUESTS = 100


def proxied(store: Store, table: Table, version: int, newest: datetime) -> list[str]:
    """The sites of whose newest requests (rows of `table` at a version, up to the time `newest`) more than half have
    the same private address, or one of a CDN, as texts such as "shop: 97% from 10.0.0.1". Raises TableError."""
    starts = [newest - time for time in _TIMES]
    after = [unfulfilled(column(table.clock) < start) for start in starts]
    [counts] = store.measure([Scan(table, version, after, column(table.clock) >= starts[0])])
    few = [start for start, count in zip(starts, counts, strict=True) if (count or 0) <= _MOST_ROWS]
    rows = store.read(table, [[(table.clock, ">=", (few or starts[-1:])[0])]], ["site", table.clients])
    return [
        f"{site}: {share:.0%} from {proxy}"
        for site, (proxy, share) in sorted(_largest(rows.rename_columns(["site", "address"])).items())
        if share > 0.5
    ]


def _largest(rows: pa.Table) -> dict[str, tuple[str, float]]:
    """By site with enough requests, its proxy with most of them, and that one's share."""
    counted = rows.group_by(["site", "address"]).aggregate([([], "count_all")]).to_pydict()
    requests = Counter[str]()
    of_proxies: dict[str, Counter[str]] = {}
    addresses = lists_of(counted["address"])
    for site, address, each, count in zip(
        counted["site"], counted["address"], addresses, counted["count_all"], strict=True
    ):
        requests[site] += count
        if each and each.kind in ("private", "cdn"):
            # A CDN has many addresses in front of one server.
            proxy = address if each.kind == "private" else each.name
            of_proxies.setdefault(site, Counter())[proxy] += count
    return {
        site: (proxy, count / requests[site])
        for site, counts in of_proxies.items()
        for proxy, count in counts.most_common(1)
        if requests[site] >= _LEAST_REQUESTS
    }
