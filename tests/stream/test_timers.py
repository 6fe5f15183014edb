"""When a query with timers of processing time has come to its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.stream.query import await_timers


class Query:
    """A query that does one more batch each time it is looked at, up to where it ends."""

    def __init__(self, *batches: tuple[float, int], ends: bool = False) -> None:
        now = datetime.now(UTC)
        self._rest = [
            {"timestamp": (now + timedelta(seconds=begun)).isoformat(), "numInputRows": rows}
            for begun, rows in batches
        ]
        self._ends = ends
        self.recentProgress: list[dict[str, Any]] = []

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        if not self._rest:
            assert self._ends, "waits for more than it should"
            return False
        self.recentProgress.append(self._rest.pop(0))
        return True

    @property
    def left(self) -> int:
        return len(self._rest)


def test_it_waits_for_a_batch_without_rows_and_then_for_the_timers() -> None:
    query = Query((-1, 0), (100, 5), (101, 0), (102, 0), (106.9, 0), (107.1, 0), (108, 0))
    await_timers(query, 6)  # type: ignore[arg-type]
    assert query.left == 1


def test_rows_that_come_while_it_waits_do_not_matter() -> None:
    query = Query((-1, 5), (100, 0), (103, 7), (106.5, 0), (107, 0))
    await_timers(query, 6)  # type: ignore[arg-type]
    assert query.left == 1


def test_the_batch_that_a_killed_run_left_behind_says_nothing_of_the_sources() -> None:
    query = Query((100, 0), (103, 7), (109, 0), (115.1, 0), (116, 0))
    await_timers(query, 6)  # type: ignore[arg-type]
    assert query.left == 1


def test_it_does_not_wait_for_a_query_that_has_ended() -> None:
    await_timers(Query((100, 3), ends=True), 6)  # type: ignore[arg-type]
