"""Lines as they are committed: each once, filtered, and harmless for a terminal."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.app import lakehouse
from tidemark.cli import tail as command
from tidemark.cli import tidemark
from tidemark.cli.tail import line
from tidemark.contract import registry
from tidemark.errors import TableError
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.selection import filters_of
from tidemark.service.tail import Tail
from tidemark.settings import Settings
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.stream.swap import WRITER

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PROTO = next(row for row in lakehouse.requests() if not row["bot"] and row["method"])


def arrow(second: int, rows: Sequence[dict[str, Any]], table: str) -> pa.Table:
    """Rows that arrive so many seconds after NOW."""
    declared = next(each for each in registry.tables() if each.name == table)
    at = NOW + timedelta(seconds=second)
    times = {"event_time": at, "ingested_at": at, "rejected_at": at}
    every = [{**PROTO, **times, "offset": 100 * second + n, **row} for n, row in enumerate(rows)]
    return pa.Table.from_pylist(every, declared.arrow_schema)


def commit(home: Path, second: int, *rows: dict[str, Any], table: str = "silver.requests") -> Path:
    """Appends such rows. Returns the table's directory."""
    path = home.joinpath("tables", *table.split("."))
    path.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), arrow(second, rows, table), mode="append")
    return path


def follow(home: Path, site: str | None = None, *filters: str) -> Tail:
    return Tail(DeltaReader(home), lakehouse_of(Settings.of(home=home)), site, filters_of(filters))


def paths(tail: Tail) -> list[str]:
    return [row["path"] for row in tail.new(0.0)]


def test_each_line_shows_once_when_it_is_committed(tmp_path: Path) -> None:
    commit(tmp_path, -1, {"path": "/old"})
    tail = follow(tmp_path)
    assert tail.new(0.0) == []
    commit(tmp_path, 1, {"path": "/a"}, {"path": "/b", "site": "other"})
    assert sorted(row["path"] for row in tail.new(1.0)) == ["/a", "/b"]
    assert tail.new(2.0) == []
    commit(tmp_path, 3, {"path": "/c"})
    commit(tmp_path, 4, {"site": "s", "value": b"\x16\x03", "reasons": ["no_time"]}, table="silver.rejected")
    assert [row.get("path") or row["reasons"] for row in tail.new(4.0)] == ["/c", ["no_time"]]
    assert tail.rate == pytest.approx(4 / 4)


def test_lines_of_the_same_moment_and_later_commits_of_earlier_ones_show(tmp_path: Path) -> None:
    tail = follow(tmp_path)
    commit(tmp_path, 5, {"path": "/a"})
    assert paths(tail) == ["/a"]
    commit(tmp_path, 5, {"path": "/b", "offset": 9})
    commit(tmp_path, 1, {"path": "/late"})
    assert paths(tail) == ["/late", "/b"]


def test_rewritten_rows_show_no_second_time(tmp_path: Path) -> None:
    path = commit(tmp_path, 1, {"path": "/a"})
    tail = follow(tmp_path)
    commit(tmp_path, 2, {"path": "/b"})
    DeltaTable(path).optimize.compact()
    commit(tmp_path, 3, {"path": "/c"})
    assert paths(tail) == ["/b", "/c"]

    # A rebuild, also of a table without rows, and the deletion of the files from before it.
    rebuilt = CommitProperties(app_transactions=[Transaction(WRITER, 1)])
    refused = commit(tmp_path, 4, table="silver.rejected")
    for table, directory in (("silver.requests", path), ("silver.rejected", refused)):
        rows = arrow(5, [{"path": "/a", "value": b"", "reasons": ["no_time"]}], table)
        write_deltalake(str(directory), rows, mode="overwrite", commit_properties=rebuilt)
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    commit(tmp_path, 6, {"path": "/d"})
    assert paths(tail) == ["/d"]

    shutil.rmtree(path)
    assert paths(tail) == []
    commit(tmp_path, 7, {"path": "/e"})
    assert paths(tail) == ["/e"]


def test_commits_that_are_no_longer_in_the_log_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = commit(tmp_path, 0, {"path": "/a"})
    tail = follow(tmp_path)
    commit(tmp_path, 1, {"path": "/b"})
    commit(tmp_path, 2, {"path": "/c"})
    DeltaTable(path).create_checkpoint()
    for version in range(2):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    assert paths(tail) == ["/c"]
    assert "rows of version 1 of silver.requests are not shown" in caplog.text


def test_filters_and_a_site_choose_lines(tmp_path: Path) -> None:
    tail = follow(tmp_path, "a", "status^4")
    commit(
        tmp_path, 1, {"status": 404, "site": "a"}, {"status": 200, "site": "a"}, {"status": 404, "site": "b"}
    )
    assert [(row["site"], row["status"]) for row in tail.new(0.0)] == [("a", 404)]


def test_tables_of_a_catalog_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="`tail` works on tables in directories and on S3"):
        Tail(DeltaReader(tmp_path), Lakehouse(str(tmp_path), catalog_schema="main.weblog"))


def test_control_characters_never_reach_the_terminal() -> None:
    bad = "/\x1b]0;owned\x07\x9b31m\u202e"
    row = dict.fromkeys(("site", "country", "path", "query", "method", "browser", "source", "channel"), bad)
    shown = [
        line({**row, "event_time": NOW, "status": 200, "duration_us": 1500, "bot_name": None}),
        line({"rejected_at": NOW, "site": bad, "reasons": [bad], "value": bad.encode()}),
    ]
    plain = [part for text in shown for part in text.split("\x1b[")]  # colours of our own
    assert not any(c in part for part in plain for c in "\x1b\x07\x9b\u202e")
    assert "\\x1b]0;owned\\x07" in shown[0] and "2 ms" in shown[0]


def test_the_command_prints_lines_until_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(1, 5))

    def pause(_: float) -> None:
        """Two lines arrive, and then the user interrupts."""
        second = next(seconds)
        if second % 2 == 0:
            raise KeyboardInterrupt
        commit(tmp_path, second, {"path": "/\x1b[31m"}, {"status": None})

    # Of the command only: threads of other tests sleep, too.
    monkeypatch.setattr(command, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
    done = CliRunner().invoke(tidemark, ["tail", "--json", "--home", str(tmp_path)])
    assert done.exit_code == 0, done.output
    result = [json.loads(text) for text in done.stdout.splitlines()]
    assert {each["path"] for each in result} == {"/\x1b[31m", PROTO["path"]} and "\x1b" not in done.stdout
    shown = CliRunner().invoke(tidemark, ["tail", "--home", str(tmp_path)])
    assert "\\x1b[31m" in shown.stdout and "\x1b" not in shown.stdout
