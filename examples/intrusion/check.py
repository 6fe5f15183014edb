"""Recounts the alerts from the generated lines with plain Python and DuckDB, without Spark."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import duckdb
import pyarrow as pa

from examples.intrusion.rules import WINDOW_SECONDS, Alert, Limits
from examples.kit.load import Event

_LINE = re.compile(r'(\S+) - - \[(\S+ \+0000)\] "(\S+) (\S+) HTTP/1.1" (\d+) ')

_SQL = """
WITH windows AS (
    SELECT client_ip, second - second % $width AS start, count(*) AS requests,
        count(DISTINCT path) FILTER (status = 404) AS not_found
    FROM made GROUP BY ALL
),
pasts AS (
    SELECT now.client_ip, now.start, count(*) AS known, avg(past.requests) AS usual
    FROM windows now JOIN windows past USING (client_ip)
    WHERE past.start < now.start AND past.start >= now.start - $history * $width
    GROUP BY ALL
)
SELECT 'scan', client_ip, start, not_found, 0.0 FROM windows WHERE not_found >= $scan_paths
UNION ALL
SELECT 'surge', client_ip, start, requests, round(usual, 6) FROM windows JOIN pasts USING (client_ip, start)
WHERE known >= $least_history AND requests >= $surge_requests AND requests > $surge_factor * usual
"""


class Logged(NamedTuple):
    """A valid line as its reader must see it."""

    second: int
    client_ip: str
    method: str
    path: str
    status: int


class Sequel(NamedTuple):
    """A sequence of logins: its rule, the address, and the epoch seconds of its first and last."""

    rule: str
    client_ip: str
    start: int
    end: int


def logged(events: Iterable[Event]) -> list[Logged]:
    """The good lines, in order of sending."""
    lines = []
    for event in events:
        if not event.reason:
            match = _LINE.match(event.value.decode())
            assert match is not None, event.value
            address, stamp, method, path, status = match.groups()
            time = datetime.strptime(stamp, "%d/%b/%Y:%H:%M:%S %z").astimezone(UTC)
            lines.append(Logged(int(time.timestamp()), address, method, path, int(status)))
    return lines


def traffic(lines: Sequence[Logged], limits: Limits) -> list[Alert]:
    """The scans and surges."""
    columns = dict(zip(Logged._fields, zip(*lines, strict=True), strict=True))
    names = ("history", "scan_paths", "least_history", "surge_requests", "surge_factor")
    values = {"width": WINDOW_SECONDS, **{name: getattr(limits, name) for name in names}}
    with duckdb.connect() as database:
        database.register("made", pa.table(columns))
        return sorted(Alert(*row) for row in database.execute(_SQL, values).fetchall())


def logins(lines: Sequence[Logged]) -> list[Sequel]:
    """The break-ins and password guessing; lines of one second in order of sending."""
    by_address: dict[str, list[Logged]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: line.second):
        if (line.method, line.path) == ("POST", "/login"):
            by_address[line.client_ip].append(line)
    return sorted(sequels for address, own in by_address.items() for sequels in _sequences(address, own))


def _sequences(address: str, lines: Iterable[Logged]) -> Iterator[Sequel]:
    """Five failures and a success, or ten failures, within five minutes; none shares lines with the next."""
    before_success: deque[int] = deque(maxlen=5)
    failures: deque[int] = deque(maxlen=10)
    for line in lines:
        if line.status in (401, 403):
            before_success.append(line.second)
            failures.append(line.second)
            if len(failures) == 10 and line.second - failures[0] <= 300:
                yield Sequel("password guessing", address, failures[0], line.second)
                failures.clear()
        elif len(before_success) == 5 and line.second - before_success[0] <= 300:
            yield Sequel("break-in", address, before_success[0], line.second)
            before_success.clear()
