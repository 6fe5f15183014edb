"""quality.deliveries: which report was sent for which period."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa

from tidemark.contract.quality_tables import DELIVERIES
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Change
from tidemark.figures.periods import Period
from tidemark.settings import Settings
from tidemark.stream.lock import appending

SENDING, SENT, FAILED = "sending", "sent", "failed"
_WRITER = "reports"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Sending:
    """A row of quality.deliveries."""

    report: str
    period: str
    site: str
    period_start: datetime
    period_end: datetime
    state: str = SENDING
    attempts: int = 0
    sent_at: datetime | None = None
    sent_to: str = ""
    failure: str | None = None
    updated_at: datetime = _EPOCH

    @classmethod
    def of(cls, report: str, site: str, period: Period) -> Sending:
        """The row of a period that is not sent yet."""
        return cls(report, period.key, site, period.start, period.end)


def recorded(store: Store, report: str) -> list[Sending]:
    """The rows of a report. Raises TableError."""
    if not store.exists(DELIVERIES):
        return []
    return [Sending(**row) for row in store.read(DELIVERIES, [[("report", "=", report)]]).to_pylist()]


def record(settings: Settings, store: Store, row: Sending) -> Sending:
    """Writes the row, with the time. Raises TableError."""
    row = replace(row, updated_at=datetime.now(UTC))
    with appending(settings):
        store.ensure(DELIVERIES)
        commit = Commit(_WRITER, store.committed(DELIVERIES, _WRITER) + 1)
        table = pa.Table.from_pylist([asdict(row)], DELIVERIES.arrow_schema)
        store.upsert(DELIVERIES, Change(table), commit)
    return row
