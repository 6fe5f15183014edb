"""Makes the tables that the dashboard reads, as real Delta tables, from a list of requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import datasketches
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from examples.intrusion.job import LOGIN_ALERTS, TRAFFIC_ALERTS
from examples.requests_by_status.requests_by_status import TABLE as REQUESTS_BY_STATUS
from tidemark.contract import quality_tables, registry
from tidemark.settings import Settings

TIME = pa.timestamp("us", "UTC")
LONG = pa.int64()
TEXT = pa.string()
BOUNDS = (1, 10, 60, 300, 1800, 10_800, 86_400)


@dataclass(frozen=True)
class Request:
    """One accepted request, with only what the gold tables need of it."""

    time: datetime
    visitor: str
    country: str = "DE"
    path: str = "/"
    site: str = "default"
    status: int = 200
    bytes: int = 1000
    bot: bool = False
    asset: bool = False

    @property
    def pageview(self) -> bool:
        return not self.bot and not self.asset and self.status < 400


# The tables of the pipeline, one of another package, and those of a job beside.
DECLARED = {
    table.name.replace(".", "/"): table
    for table in (
        *registry.tables(),
        *quality_tables.TABLES,
        replace(REQUESTS_BY_STATUS, package="odd-package"),
        LOGIN_ALERTS,
        TRAFFIC_ALERTS,
    )
}


def write(home: Path, table: str, rows: Iterable[dict[str, Any]], mode: str = "overwrite") -> None:
    """Writes rows (missing columns null) as a Delta table of the home, or appends them to it. The first write takes two
    commits: a table has the properties that the pipeline gives it."""
    schema = DECLARED[table].documented_schema
    filled = [{name: row.get(name) for name in schema.names} for row in rows]
    path = home / "tables" / table
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    write_deltalake(str(path), pa.Table.from_pylist(filled, schema), mode=mode)
    if new:
        properties = DECLARED[table].reader_properties(Settings())
        DeltaTable(str(path)).alter.set_table_properties(properties, raise_if_not_exists=False)


def sketch(visitors: Iterable[str]) -> bytes:
    """Distinct visitors as the pipeline keeps them."""
    update = datasketches.update_theta_sketch(20)
    for visitor in visitors:
        update.update(visitor)
    return bytes(update.compact().serialize())


def floor(moment: datetime, seconds: int) -> datetime:
    return datetime.fromtimestamp(int(moment.timestamp()) // seconds * seconds, UTC)


def write_gold(home: Path, requests: Sequence[Request]) -> None:
    """The three gold tables and quality/sites that these requests make."""
    write(home, "gold/visitors_by_country", _windows(requests, 300, "country", lambda r: r.country))
    write(home, "gold/traffic", _windows(requests, 60, None, lambda r: None))
    views = [r for r in requests if r.pageview]
    write(home, "gold/pages", _windows(views, 3600, "path", lambda r: r.path))
    write(home, "quality/sites", _sites(requests))


def _windows(
    requests: Sequence[Request], seconds: int, column: str | None, key: Callable[[Request], Any]
) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[Request]] = defaultdict(list)
    for r in requests:
        groups[(r.site, floor(r.time, seconds), key(r))].append(r)
    rows = []
    for (site, start, name), members in groups.items():
        people = {r.visitor for r in members if not r.bot}
        row = {
            "site": site,
            "window_start": start,
            "window_end": start + timedelta(seconds=seconds),
            "visitors": len(people),
            "pageviews": sum(r.pageview for r in members),
            "requests": len(members),
            "bot_requests": sum(r.bot for r in members),
            "bytes": sum(r.bytes for r in members),
            "updated_at": max(r.time for r in members),
            "visitors_sketch": sketch(people),
        }
        row |= {f"status_{c}xx": sum(r.status // 100 == c for r in members) for c in (2, 3, 4, 5)}
        rows.append(row | ({column: name} if column else {}))
    return rows


def _sites(requests: Sequence[Request]) -> list[dict[str, Any]]:
    rows = []
    for site in sorted({r.site for r in requests}):
        times = [r.time for r in requests if r.site == site]
        rows.append(
            {
                "site": site,
                "first_event_time": min(times),
                "newest_event_time": max(times),
                "newest_kafka_timestamp": max(times),
                "accepted": len(times),
                "rejected": 0,
                "late": 0,
                "lateness": [len(times), 0, 0, 0, 0, 0, 0, 0],
                "updated_at": max(times),
            }
        )
    return rows


def session(
    number: int, start: datetime, pages: Sequence[str], seconds: int = 0, **more: Any
) -> dict[str, Any]:
    """A row of silver/sessions whose pageviews were the given pages."""
    return {
        "session_id": f"s{number}",
        "site": "default",
        "visitor_id": f"v{number}",
        "country": "DE",
        "start_time": start,
        "end_time": start + timedelta(seconds=seconds),
        "duration_seconds": seconds,
        "pageviews": len(pages),
        "entry_page": pages[0],
        "exit_page": pages[-1],
        "bounced": len(pages) == 1,
        "closed": True,
        "browser": "Firefox",
        "os": "Linux",
        "device": "Desktop",
        "channel": "direct",
        "source": "",
        "medium": "",
        "campaign": "",
        "referrer_host": None,
        "updated_at": start,
    } | more


def rejected(offset: int, at: datetime, value: bytes, *reasons: str, site: str = "default") -> dict[str, Any]:
    """A row of silver/rejected."""
    return {
        "topic": "access-log", "partition": 0, "offset": offset, "site": site, "value": value,
        "reasons": list(reasons), "kafka_timestamp": at, "rejected_at": at,
    }  # fmt: skip


def account(
    batch: int, at: datetime, accepted: int, rejected: int = 0, duplicate: int = 0, late: int = 0
) -> dict[str, Any]:
    """A row of quality/accounts that balances."""
    return {
        "flow": "requests", "batch_id": batch, "received": accepted + rejected + duplicate,
        "accepted": accepted, "rejected": rejected, "duplicate": duplicate, "late": late,
        "started_at": at, "committed_at": at,
    }  # fmt: skip


def progress(flow: str, batch: int, at: datetime, **more: Any) -> dict[str, Any]:
    """A row of quality/progress."""
    return {
        "flow": flow, "batch_id": batch, "recorded_at": at, "rows": 1000, "duration_ms": 500,
        "rows_per_second": 2000.0, "freshness_seconds": 0.8, "lag": 0, "newest_event_time": at,
    } | more  # fmt: skip


def result(at: datetime, table: str, expectation: str, success: bool = True, **more: Any) -> dict[str, Any]:
    """A row of quality/results."""
    return {
        "run_id": at.isoformat(), "run_time": at, "table": table, "expectation": expectation,
        "column": "country", "severity": "warning", "success": success, "observed_value": "0",
        "unexpected_count": 0 if success else 3, "details": "",
    } | more  # fmt: skip
