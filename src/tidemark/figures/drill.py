"""From a figure to its rows: the newest of silver.requests, and the raw line of one of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd

from tidemark.figures import conditions, silver
from tidemark.figures.query import Condition, Where, query
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

MOST = 200
COLUMNS = (
    "event_time", "site", "host", "method", "path", "query", "status", "bytes", "duration_us", "country", "visitor_id",
    "client_ip", "device", "browser", "os", "bot_name", "bot_kind", "channel", "source", "referrer", "user_agent",
    "topic", "partition", "offset", "kafka_timestamp", "ingested_at", "format", "rules_version",
)  # fmt: skip
BRONZE = "bronze/access_log"
ACCOUNTS = "quality/accounts"


def newest(
    rows: Rows, selection: Selection, where: tuple[Condition, ...] = (), limit: int = MOST
) -> pd.DataFrame:
    """The newest rows of silver.requests that a selection and further conditions keep, with the columns COLUMNS."""
    kept = (*conditions.of_lines(selection), *where)
    return rows(query(silver.REQUESTS, COLUMNS, kept, order_by=["-event_time", "-offset"], limit=limit))


@dataclass(frozen=True)
class Line:
    """A raw line, how it was read and when: the number of the batch is None where it is not known."""

    value: bytes
    headers: dict[str, str]
    kafka_timestamp: datetime
    ingested_at: datetime
    format: str
    rules_version: str
    batch: int | None


def line(rows: Rows, row: Any) -> Line | None:
    """The raw line of a row that `newest` gave; None if bronze does not have it any more.

    The time of the record lets all files but those of that time be left out.
    """
    same = (
        Where("topic", "=", str(row["topic"])),
        Where("partition", "=", int(row["partition"])),
        Where("offset", "=", int(row["offset"])),
    )
    known = row["kafka_timestamp"]
    time = () if pd.isna(known) else (Where("kafka_timestamp", "=", known.to_pydatetime()),)
    columns = ["site", "format", "fields", "value", "kafka_timestamp", "ingested_at"]
    lines = rows(query(BRONZE, columns, (*same, *time)))
    if lines.empty:
        return None
    raw = lines.iloc[0]
    headers = {name: str(raw[name]) for name in ("site", "format", "fields") if not pd.isna(raw[name])}
    return Line(
        bytes(raw["value"]),
        headers,
        raw["kafka_timestamp"].to_pydatetime(),
        raw["ingested_at"].to_pydatetime(),
        str(row["format"] or ""),
        str(row["rules_version"] or ""),
        _batch(rows, raw["ingested_at"].to_pydatetime()),
    )


def _batch(rows: Rows, ingested_at: datetime) -> int | None:
    """The batch of the flow `requests` that ran when a line was read."""
    if rows.reader.version(ACCOUNTS) is None:
        return None
    during = (
        Where("flow", "=", "requests"),
        Where("started_at", "<=", ingested_at),
        Where("committed_at", ">=", ingested_at),
    )
    batches = rows(query(ACCOUNTS, ["batch_id"], during, order_by=["batch_id"]))
    return None if batches.empty else int(batches["batch_id"].iloc[0])
