"""A snapshot of all tables between two batches: consistent versions, and their lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

from tidemark.contract.expression import Expression, column
from tidemark.contract.quality_tables import SITES
from tidemark.contract.table import Table
from tidemark.errors import TableError
from tidemark.home import ACTIVITY, REQUESTS, Home
from tidemark.store import deltalog
from tidemark.stream import lock
from tidemark.stream.table_state import committed_tables

_PATIENCE_SECONDS = 60.0
_UNREAD = "Start the pipeline once, `tidemark run --once`, then try again."


class UnsettledError(TableError):
    """The flows of a stopped pipeline are not at the end of a batch."""


@dataclass(frozen=True)
class Snapshot:
    """Versions of all tables between two batches; None where it is the newest one.

    `passed` is the version of the table between that the second flow has read. `offsets` has the end offset of these
    lines by topic and partition, `ends` that of the lines in the first flow's tables, which may be further.
    """

    versions: Mapping[str, int | None]
    passed: int
    offsets: Mapping[str, Mapping[str, int]]
    ends: Mapping[str, Mapping[str, int]]

    def later(self) -> Expression:
        """Whether a line, by `topic`, `partition` and `offset`, is after the lines that the second flow has read."""
        return _after(self.offsets)

    def new(self) -> Expression:
        """Likewise, whether it is after the lines in the first flow's tables."""
        return _after(self.ends)


def _after(offsets: Mapping[str, Mapping[str, int]]) -> Expression:
    condition = column("topic").is_null()
    for topic, ends in offsets.items():
        read = [
            (column("partition") == int(number)) & (column("offset") < end) for number, end in ends.items()
        ]
        of_topic = column("topic") == topic
        condition = condition | (of_topic & ~reduce(lambda a, b: a | b, read) if read else of_topic)
    return condition


@contextmanager
def at_snapshot(home: Home, least: int = -1) -> Iterator[Snapshot]:
    """Holds the lock exclusively at a moment when the second flow is between two versions, and has read all lines of
    the version `least`.

    Raises UnsettledError if there is no such moment: a stopped pipeline's last batch was interrupted, or
    its second flow has not read lines that a change of the table has replaced.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        with lock.at_rest(home.settings):
            snapshot = _look(home, least)
            if not isinstance(snapshot, str):
                yield snapshot
                return
        with lock.no_pipeline(home.settings) as stopped:
            if stopped or time.monotonic() > deadline:
                raise UnsettledError(snapshot, _UNREAD)
        time.sleep(0.3)


def _look(home: Home, least: int) -> Snapshot | str:
    """The snapshot, or the reason why there is none."""
    graph, store = home.graph, home.store
    lines, following = home.checkpoint(REQUESTS), home.checkpoint(ACTIVITY)
    first, second = deltalog.writer(REQUESTS, lines), deltalog.writer(ACTIVITY, following)
    if not first or not second:
        return "a flow has not run yet"
    # A table that no pipeline has known yet, or none of its present flow, is not part of any batch.
    known = committed_tables(home)

    def committed(table: Table, writer: str) -> list[int]:
        number = store.committed(table, writer)
        return [number] if number >= 0 or table.name in known else []

    done = [number for table in (*graph.now, SITES) for number in committed(table, first)]
    extra = [store.committed(table, first) for table in graph.appends]
    derived = [number for table in graph.later for number in committed(table, second)]
    if not done or not derived:
        return "a flow has not run yet"
    if len(set(done)) > 1 or max(extra, default=-1) > done[-1] or len(set(derived)) > 1:
        return "the last batch was interrupted"
    log = home.lakehouse.log(graph.accepted)
    try:
        passed = deltalog.passed_version(log, deltalog.stream_offset(following, derived[0]))
        if passed is None:
            return "a flow is in the middle of a version"
        if any(deltalog.added(commit) for n, commit in deltalog.commits(log, passed + 1) if n <= least):
            return "a flow has yet to read earlier lines"
        waits = _first_waiting(log, passed, first)
        if waits == "replaced":
            return "a flow has yet to read lines that were replaced meanwhile"
        batch = done[0] if waits is None else int(waits) - 1
        if batch < 0:
            return "a flow has yet to read its first lines"
        offsets, ends = (deltalog.stream_offset(lines, number) for number in (batch, done[0]))
    except FileNotFoundError:
        return "a flow is too far behind"
    return Snapshot({table.name: store.version(table) for table in home.tables}, passed, offsets, ends)


def _first_waiting(log: deltalog.Log, passed: int, writer: str) -> str | None:
    """Number of the first flow's first batch that the second has not read, None if there is none."""
    first = None
    for _, commit in deltalog.commits(log, passed + 1):
        if any(action.get("remove", {}).get("dataChange") for action in commit):
            return "replaced"
        if first is None and deltalog.added(commit):
            first = _number(commit, writer)
    return first


def _number(commit: Sequence[dict[str, Any]], writer: str) -> str | None:
    return next((str(a["txn"]["version"]) for a in commit if a.get("txn", {}).get("appId") == writer), None)
