"""How many lines of the quarantine the present rules accept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from silver import rejected
from tests.operate.quality.rows import good, rows
from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.operate import quarantine
from tidemark.operate.quarantine import Readable, readable
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NAMED = b'client.example - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8.5.0"'
LATIN = '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET /caf\u00e9 HTTP/1.1" 200 512'.encode("latin-1")
GARBAGE = b"nothing of the kind"


def home_with(directory: Path, *batches: Sequence[bytes]) -> Pipeline:
    """A home whose batches, an hour apart and the last one an hour ago, have rejected these lines."""
    home = Pipeline.of(Settings.of(home=directory, visitor_key="of a test"))
    for table in (ACCOUNTS, rejected.TABLE):
        home.store.ensure(table)
    for number, lines in enumerate(batches):
        began = NOW - timedelta(hours=len(batches) - number)
        counts = {"received": len(lines), "accepted": 0, "rejected": len(lines), "started_at": began}
        home.store.append_arrow(ACCOUNTS, rows(ACCOUNTS, good(ACCOUNTS, number, **counts)))
        refused = [
            good(rejected.TABLE, 10 * number + each, value=line, reasons=["malformed"], kafka_timestamp=began,
                 rejected_at=began + timedelta(seconds=1))
            for each, line in enumerate(lines)
        ]  # fmt: skip
        home.store.append_arrow(rejected.TABLE, rows(rejected.TABLE, *refused))
    return home


def test_lines_that_an_earlier_version_has_rejected_are_counted(tmp_path: Path) -> None:
    home = home_with(tmp_path, [NAMED, GARBAGE], [LATIN])
    assert readable(home, home.validation(), NOW) == Readable(2, 3, all=True)
    assert str(readable(home, home.validation(), NOW)).startswith("2 of the 3 rejected lines can be read")
    # Lines of later batches were rejected by the present rules.
    assert readable(home, home.validation(), NOW - timedelta(hours=1)) == Readable(1, 2, all=True)


def test_nothing_is_reported_without_rejected_lines(tmp_path: Path) -> None:
    home = home_with(tmp_path, [])
    assert readable(home, home.validation(), NOW) == Readable(0, 0, all=True)


def test_of_a_large_quarantine_the_newest_lines_are_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "NEWEST_LINES", 2)
    home = home_with(tmp_path, [NAMED, NAMED], [LATIN, GARBAGE])
    result = readable(home, home.validation(), NOW)
    assert result == Readable(1, 2, all=False)
    assert str(result).startswith("1 of the newest 2 rejected lines can be read")
