"""Single requests with their raw lines, page by page."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tidemark.figures import conditions, silver
from tidemark.figures.drill import BRONZE, COLUMNS
from tidemark.figures.query import AllOf, AnyOf, Condition, Where, query
from tidemark.figures.rows import Rows, if_any
from tidemark.figures.selection import Selection, SelectionError, moment

# The order of the lines, newest first; unique.
ORDER = ("event_time", "topic", "partition", "offset")
USUAL, MOST = 100, 1000


def lines(rows: Rows, selection: Selection, limit: int, cursor: str = "") -> tuple[pd.DataFrame, str | None]:
    """At most `limit` requests of a selection after `cursor`, newest first: the columns of `drill.COLUMNS`, and `line`,
    the raw line as text (None where bronze does not have it any more). Also the cursor of the next ones, None at the
    end. Raises SelectionError for a cursor that cannot be used."""
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
    same: list[Condition] = []
    for _, part in requests.groupby(["topic", "partition"]):
        topic, partition = part[["topic", "partition"]].iloc[0]
        offsets = tuple(map(int, part["offset"]))
        of_partition = Where("topic", "=", str(topic)), Where("partition", "=", int(partition))
        same.append(AllOf((*of_partition, Where("offset", "in", offsets))))
    kept = if_any(rows, query(BRONZE, [*ORDER[1:], "value"], _of_times(requests, same)))
    keys = zip(*(kept[name] for name in ORDER[1:]), strict=True)
    return {
        key: bytes(value).decode("utf-8", "backslashreplace")
        for key, value in zip(keys, kept["value"], strict=True)
    }


def _of_times(requests: pd.DataFrame, same: Sequence[Condition]) -> tuple[Condition, ...]:
    """The condition `same`, with the range of the records' times, by which most files are left out."""
    times = requests["kafka_timestamp"]
    if times.isna().any():
        return (AnyOf(tuple(same)),)
    return (
        AnyOf(tuple(same)),
        Where("kafka_timestamp", ">=", times.min().to_pydatetime()),
        Where("kafka_timestamp", "<=", times.max().to_pydatetime()),
    )
