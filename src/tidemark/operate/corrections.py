"""Corrects quality.sites and quality.accounts when lines become accepted or rejected, or are deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tidemark.contract.expression import Expression
from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.operate.rows import Rows

Span = tuple[datetime | None, datetime | None]


@dataclass(frozen=True)
class Corrections:
    """Changes by site: the differences of accepted and rejected lines,
    and, if known, the first and the newest event time of the accepted ones."""

    accepted: Mapping[str, int]
    rejected: Mapping[str, int]
    spans: Mapping[str, Span]

    @classmethod
    def of(cls, before: Rows, after: Rows, kept: Expression | None = None) -> Corrections:
        """From the accepted lines before and after a new validation (`site`, `event_time`), all or those `kept`. A line
        that is no longer accepted is rejected, and vice versa."""
        old, new = (spans(rows if kept is None else rows.where(kept)) for rows in (before, after))
        none = {"rows": 0}
        more = {site: new.get(site, none)["rows"] - old.get(site, none)["rows"] for site in {*old, *new}}
        times = {site: (row["first"], row["newest"]) for site, row in new.items()}
        return cls(more, {site: -count for site, count in more.items()}, times)

    @property
    def changes(self) -> bool:
        return any(self.accepted.values()) or any(self.rejected.values())

    def caught_up(self, tail: Rows) -> Corrections:
        """Adds the times of accepted lines that arrived later, whose numbers are already counted."""
        spans_now = dict(self.spans)
        for site, row in spans(tail).items():
            times = [t for t in (*spans_now.get(site, ()), row["first"], row["newest"]) if t is not None]
            spans_now[site] = (min(times), max(times))
        return replace(self, spans=spans_now)

    def sites(self, rows: pa.Table, table: Table) -> pa.Table:
        """The corrected rows of quality.sites. Lateness stays as measured on arrival."""
        now = datetime.now(UTC)
        changed = []
        for row in rows.to_pylist():
            site = row["site"]
            first, newest = self.spans.get(site, (row["first_event_time"], row["newest_event_time"]))
            changed.append(
                {
                    **row,
                    "accepted": row["accepted"] + self.accepted.get(site, 0),
                    "rejected": row["rejected"] + self.rejected.get(site, 0),
                    "first_event_time": first,
                    "newest_event_time": newest,
                    "reached_event_time": _earlier(row["reached_event_time"], newest),
                    "updated_at": now,
                }
            )
        return pa.Table.from_pylist(changed, table.arrow_schema)


def _earlier(reached: datetime | None, newest: datetime | None) -> datetime | None:
    return min(reached, newest) if reached and newest else None


def correction(store: Store, table: Table, flow: str, corrections: Corrections) -> pa.Table:
    """The row of quality.accounts with the changes of an operation, which is named like a flow. Operations are
    numbered in the order of their commits to the table."""
    earlier = store.read(table, [[("flow", "=", flow)]], ["batch_id"])["batch_id"]
    accepted, rejected = sum(corrections.accepted.values()), sum(corrections.rejected.values())
    now = datetime.now(UTC)
    row: dict[str, Any] = {
        "flow": flow,
        "batch_id": max(earlier.to_pylist(), default=0) + 1,
        "received": accepted + rejected,
        "accepted": accepted,
        "rejected": rejected,
        "duplicate": 0,
        "late": 0,
        "started_at": now,
        "committed_at": now,
    }
    return pa.Table.from_pylist([row], table.arrow_schema)


def spans(accepted: Rows) -> dict[str, dict[str, Any]]:
    """By site, the number of `rows` of accepted lines, and their `first` and `newest` event time."""
    return accepted.counted("site", {"first": ("event_time", "min"), "newest": ("event_time", "max")})
