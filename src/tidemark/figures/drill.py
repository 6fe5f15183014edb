"""From a figure to its rows: the newest of silver.requests, or all of them page by page, with their raw lines."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd

from tidemark.figures import conditions, silver
from tidemark.figures.query import AllOf, AnyOf, Condition, Where, query
from tidemark.figures.rows import Rows, if_any
from tidemark.figures.selection import Selection, SelectionError, moment

MOST = 200
# Lines of a page.
USUAL_LINES, MOST_LINES = 100, 1000
COLUMNS = (
    "event_time", "site", "host", "method", "path", "query", "status", "bytes", "duration_us", "country", "visitor_id",
    "client_ip", "device", "browser", "os", "bot_name", "bot_kind", "channel", "source", "referrer", "user_agent",
    "topic", "partition", "offset", "kafka_timestamp", "ingested_at", "format", "rules_version",
)  # fmt: skip
# The order of the lines, newest first; unique.
ORDER = ("event_time", "topic", "partition", "offset")
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
    """The raw line of a row that `newest` gave; None if bronze does not have it any more."""
    columns = ["site", "format", "fields", "value", "kafka_timestamp", "ingested_at"]
    raws = rows(query(BRONZE, columns, _records_of(pd.DataFrame([dict(row)]))))
    if raws.empty:
        return None
    raw = raws.iloc[0]
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


def lines(rows: Rows, selection: Selection, limit: int, cursor: str = "") -> tuple[pd.DataFrame, str | None]:
    """At most `limit` requests of a selection after `cursor`, newest first: the columns COLUMNS, and `line`, the raw
    line as text (None where bronze does not have it any more). Also the cursor of the next ones, None at the end.
    Raises SelectionError for a cursor that cannot be used."""
    where = (*conditions.of_lines(selection), *((after(cursor),) if cursor else ()))
    order = [f"-{name}" for name in ORDER]
    requests = rows(query(silver.REQUESTS, COLUMNS, where, order_by=order, limit=limit + 1))
    more, requests = len(requests) > limit, requests.head(limit)
    raw = _raw(rows, requests)
    keys = zip(*(requests[name] for name in ORDER[1:]), strict=True)
    texts = pd.Series([raw.get(key) for key in keys], index=requests.index, dtype=object)
    return requests.assign(line=texts), cursor_of(requests.iloc[-1]) if more else None


def cursor_of(row: pd.Series) -> str:
    """The cursor of the lines after a row."""
    place = [row["event_time"].isoformat(), *(row[name] for name in ORDER[1:])]
    return urlsafe_b64encode(json.dumps(place, default=int).encode()).decode().rstrip("=")


def after(cursor: str) -> Condition:
    """The condition that keeps the rows after a cursor. Raises SelectionError."""
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        time, topic, partition, offset = json.loads(text)
        place = (moment(str(time)), str(topic), int(partition), int(offset))
        str(topic).encode()  # halves of a surrogate pair are no text
    except (ValueError, TypeError, OverflowError, RecursionError, SelectionError) as error:
        raise SelectionError(
            "cursor: it is not one of this server", "Give `next` of the answer before, or none."
        ) from error
    equal: list[Condition] = []
    parts: list[Condition] = []
    for name, value in zip(ORDER, place, strict=True):
        parts.append(AllOf((*equal, Where(name, "<", value))))
        equal.append(Where(name, "=", value))
    return AnyOf(tuple(parts))


def _raw(rows: Rows, requests: pd.DataFrame) -> dict[Any, str]:
    """The raw lines by topic, partition and offset."""
    if requests.empty:
        return {}
    kept = if_any(rows, query(BRONZE, [*ORDER[1:], "value"], _records_of(requests)))
    keys = zip(*(kept[name] for name in ORDER[1:]), strict=True)
    return {
        key: bytes(value).decode("utf-8", "backslashreplace")
        for key, value in zip(keys, kept["value"], strict=True)
    }


def _records_of(requests: pd.DataFrame) -> tuple[Condition, ...]:
    """The condition that keeps the records of requests, with the range of their times, by which most files are left
    out."""
    same: list[Condition] = []
    for _, part in requests.groupby(["topic", "partition"]):
        topic, partition = part[["topic", "partition"]].iloc[0]
        offsets = tuple(map(int, part["offset"]))
        of_partition = Where("topic", "=", str(topic)), Where("partition", "=", int(partition))
        same.append(AllOf((*of_partition, Where("offset", "in", offsets))))
    times = requests["kafka_timestamp"]
    if times.isna().any():
        return (AnyOf(tuple(same)),)
    return (
        AnyOf(tuple(same)),
        Where("kafka_timestamp", ">=", times.min().to_pydatetime()),
        Where("kafka_timestamp", "<=", times.max().to_pydatetime()),
    )
