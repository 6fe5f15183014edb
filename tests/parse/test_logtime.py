"""Times of log lines, compared with Python's parser, and invalid times."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.parse.logtime import event_time


def read(text: str | None) -> datetime | None:
    # Between others, of which one is cut off in front: the array has an offset.
    texts = pa.array(["x", None, text, "17/May/2015:10:05:03 +0000"])[1:]
    none, rows, other = event_time(texts).to_pylist()
    assert none is None and other == datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)
    return rows  # type: ignore[no-any-return]


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9998, 12, 30), timezones=st.just(UTC)),
    st.integers(-18 * 60, 18 * 60),
)
@example(datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC), -18 * 60)
@example(datetime(2100, 2, 28, 23, 59, 59, tzinfo=UTC), 0)
def test_it_is_read_as_python_reads_it(moment: datetime, ahead: int) -> None:
    zone = f"{'-' if ahead < 0 else '+'}{abs(ahead) // 60:02}{abs(ahead) % 60:02}"
    text = f"{moment:%d/%b/%Y:%H:%M:%S} {zone}"
    assert read(text) == datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z")


@pytest.mark.parametrize(
    "text",
    [
        "", "-", "29/Feb/2023:10:00:00 +0000", "29/Feb/2100:10:00:00 +0000", "31/Apr/2024:10:00:00 +0000",
        "00/May/2024:10:00:00 +0000", "32/May/2024:10:00:00 +0000", "17/may/2024:10:00:00 +0000",
        "17/Mai/2024:10:00:00 +0000", "17/May/1969:10:00:00 +0000", "17/May/9999:10:00:00 +0000",
        "17/May/2024:24:00:00 +0000", "17/May/2024:10:60:00 +0000", "17/May/2024:10:00:60 +0000",
        "17/May/2024:10:00:00 +1801", "17/May/2024:10:00:00 +0060", "17/May/2024:10:00:00 *0000",
        "17/May/2024 10:00:00 +0000", "17/May/2024:10:00:00 +000", "17/May/2024:10:00:00 +00000",
        " 7/May/2024:10:00:00 +0000", "17/May/2024:10:00:0: +0000", "17/May/\u0662024:10:00:00 +000",
    ],
)  # fmt: skip
def test_anything_else_is_null(text: str) -> None:
    assert read(text) is None
