"""Sums, visitors and histograms of a few rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from silver.visitor_days import minute_of_day
from tidemark.contract.expression import column
from tidemark.contract.table import Change
from tidemark.engine.counts import ROWS, Histogram, Sum, Text, WindowedCounts

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("site", pa.string()), ("event_time", pa.timestamp("us", "UTC")), ("visitor_id", pa.string()),
        ("bot", pa.bool_()), ("path", pa.string()), ("status", pa.int32()), ("bytes", pa.int64()),
    ]
)  # fmt: skip


def requests(*lines: dict[str, Any]) -> pa.Table:
    usual = {"site": "shop", "event_time": NOON, "visitor_id": "v", "bot": False, "path": "/", "status": 200}
    return pa.Table.from_pylist([usual | {"bytes": 10} | each for each in lines], SCHEMA)


def rows_of(counts: WindowedCounts, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    """The table's rows of these requests, without the site and the time of writing."""
    change = combined(counts, *lines)
    rows = change.rows.drop_columns(["site", "updated_at"]).to_pylist()
    return sorted(({k: v for k, v in row.items() if k != "visitors_sketch"} for row in rows), key=repr)


def combined(counts: WindowedCounts, *lines: dict[str, Any]) -> Change:
    partial = counts.partial(requests(*lines).select(list(counts.needs)))
    return counts.combine(_empty(counts, partial), partial)


def _empty(counts: WindowedCounts, partial: pa.Table) -> pa.Table:
    rows = partial.slice(0, 0)
    if counts.visitors != "none":
        rows = rows.append_column("visitors_sketch", pa.array([], pa.binary()))
    return rows


def test_text_of_a_key_is_shortened_and_never_null() -> None:
    by_path = WindowedCounts(3600, {"requests": ROWS}, by=(Text("page", of="path", most=3),), visitors="none")
    result = rows_of(
        by_path, {"path": "/äbc"}, {"path": "/äbd"}, {"path": None}, {"path": ""}, {"path": "/äb"}
    )
    hour = {"window_start": NOON, "window_end": NOON + timedelta(hours=1)}
    assert result == [{"page": "", "requests": 2, **hour}, {"page": "/äb", "requests": 3, **hour}]


def test_a_sum_counts_the_rows_of_its_condition_and_null_is_not_true() -> None:
    sums = {
        "robots": Sum(where=column("path") == "/robots.txt"),
        "failed_bytes": Sum("bytes", where=column("status") >= 400),
    }
    counts = WindowedCounts(3600, sums, where=column("status") != 302, visitors="none")
    robots = {"path": "/robots.txt", "status": 404, "bytes": 7}
    [row] = rows_of(counts, robots, {"path": None}, {"status": 500}, {"status": 302}, {"status": None})
    assert (row["robots"], row["failed_bytes"]) == (1, 17)


def test_visitors_are_people_or_all_or_not_counted() -> None:
    rows = [{"visitor_id": "a"}, {"visitor_id": "a"}, {"visitor_id": "b", "bot": True}, {"visitor_id": None}]
    assert [row["visitors"] for row in rows_of(WindowedCounts(3600, {}), *rows)] == [1]
    assert [row["visitors"] for row in rows_of(WindowedCounts(3600, {}, visitors="all"), *rows)] == [2]
    [row] = rows_of(WindowedCounts(3600, {"requests": ROWS}, visitors="none"), *rows)
    assert "visitors" not in row and row["requests"] == 4


def test_a_histogram_counts_rows_by_number_in_order_and_is_empty_without_any() -> None:
    pages = Histogram("event_time", "minute", minute_of_day, column("path") != "/robots.txt")
    counts = WindowedCounts(86_400, {}, histograms={"minutes": pages}, visitors="none", start="day")
    later = [{"event_time": NOON + timedelta(minutes=m)} for m in (5, 0, 5, 12 * 60 + 1)]
    day = NOON.replace(hour=0)
    assert rows_of(counts, *later, {"path": "/robots.txt"}) == [
        {"day": day, "minutes": [(720, 1), (725, 2)]},
        {"day": day + timedelta(days=1), "minutes": [(1, 1)]},
    ]
    assert rows_of(counts, {"path": "/robots.txt"}) == [{"day": day, "minutes": []}]


def test_histograms_of_a_row_add_per_number() -> None:
    counts = WindowedCounts(
        86_400, {}, histograms={"minutes": Histogram("event_time", "minute", minute_of_day)}, visitors="none"
    )
    first = combined(counts, {}, {"event_time": NOON + timedelta(minutes=1)}).rows
    partial = counts.partial(requests({}, {"event_time": NOON + timedelta(minutes=2)}))
    [row] = counts.combine(first, partial).rows.to_pylist()
    assert row["minutes"] == [(720, 2), (721, 1), (722, 1)]


def test_late_rows_do_not_touch_what_lies_between() -> None:
    counts = WindowedCounts(3600, {"requests": ROWS}, visitors="none")

    def touched(*times: datetime) -> list[list[datetime]]:
        partial = counts.partial(requests(*({"event_time": time} for time in times)))
        return [[bound for _, _, bound in group] for group in counts.touched(partial)]

    hour, day = timedelta(hours=1), timedelta(days=1)
    assert touched(NOON + hour, NOON - day + hour, NOON) == [[NOON - day + hour, NOON + hour]]
    assert touched(NOON, NOON - 30 * day, NOON + hour) == [[NOON - 30 * day] * 2, [NOON, NOON + hour]]
    many = touched(*(NOON - number * 2 * day for number in range(50)))
    assert len(many) == 8 and many[0][0] == NOON - 98 * day and many[-1][1] == NOON
    assert touched() == []


def test_parameters_of_rows_that_must_not_mix_are_in_the_identity() -> None:
    def identity(**more: Any) -> object:
        return WindowedCounts(60, {"requests": ROWS}, **more).identity

    usual = identity()
    assert identity(where=column("status") >= 400)["rows"] == "status >= 400"  # type: ignore[index]
    assert identity(by=(Text("path", most=9),)) == {**usual, "path": "at most 9 characters"}  # type: ignore[dict-item]
    by_minute = {"minutes": Histogram("event_time", "minute", minute_of_day)}
    assert identity(histograms=by_minute) == {**usual, "minutes": "rows by minute"}  # type: ignore[dict-item]
    # As homes have recorded it since the first release.
    assert identity(where=column("pageview")) == usual
    assert usual == {"window": "60 s", "requests": "rows", "visitors_sketch": "theta sketch of 2^20"}
