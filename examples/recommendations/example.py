"""The example for its command line: input, job, output, and the recount."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from examples.kit.example import Example
from examples.kit.load import Load
from examples.kit.results import Results
from examples.recommendations.check import differences, recount
from examples.recommendations.generator import events
from examples.recommendations.job import CO_VISITS, GAP, job
from examples.recommendations.visits import also_viewed

_SHOWN_ITEMS, _SHOWN_OTHERS = 3, 3


def views(load: Load) -> Iterator[tuple[float, str, str]]:
    """(epoch second, visitor, item) of every good view of the load."""
    for event in events(load):
        if not event.reason:
            fields = json.loads(event.value)
            time = datetime.fromisoformat(fields["event_time"]).timestamp()
            yield time, fields["visitor"], fields["item"]


def show(results: Results) -> Iterator[str]:
    """Recommendations for the most viewed of the items whose counts changed."""
    changed = {row["item"] for row in results.fresh(CO_VISITS).to_pylist()}
    if not changed:
        return
    rows = results.table(CO_VISITS).select(["item", "also", "sessions"]).to_pylist()
    counts = [(row["item"], row["also"], row["sessions"]) for row in rows]
    alone = {item: sessions for item, also, sessions in counts if item == also}
    others = also_viewed(counts, _SHOWN_OTHERS)
    for item in sorted(changed & alone.keys(), key=lambda item: (-alone[item], item))[:_SHOWN_ITEMS]:
        best = ", ".join(f"{also} ({score:.2f})" for also, score in others.get(item, []))
        yield f"{item} ({alone[item]:,} sessions): who viewed this also viewed {best}"


def check(load: Load, results: Results) -> Iterator[str]:
    """The table's counts against the recount."""
    pairs = {(row["item"], row["also"]): row["sessions"] for row in results.table(CO_VISITS).to_pylist()}
    yield from differences(pairs, recount(views(load), GAP))


EXAMPLE = Example("examples.recommendations", job(), events, show, check, rate=500.0)
