"""Lines as they are committed: filtered, and harmless for a terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from tests.app import lakehouse
from tidemark.cli import tidemark
from tidemark.cli.tail import line
from tidemark.contract import registry
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.selection import filters_of
from tidemark.service.tail import Tail

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PROTO = next(row for row in lakehouse.requests() if not row["bot"] and row["method"])


def commit(home: Path, second: int, *rows: dict[str, Any], table: str = "silver.requests") -> None:
    """Appends rows that arrive so many seconds after NOW."""
    declared = next(each for each in registry.tables() if each.name == table)
    at = NOW + timedelta(seconds=second)
    every = [{**PROTO, "event_time": at, "ingested_at": at, "rejected_at": at, **row} for row in rows]
    path = home.joinpath("tables", *table.split("."))
    path.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), pa.Table.from_pylist(every, declared.arrow_schema), mode="append")


def test_each_line_shows_once_when_it_is_committed(tmp_path: Path) -> None:
    commit(tmp_path, -1, {"path": "/old"})
    tail = Tail(DeltaReader(tmp_path), since=NOW)
    assert tail.new(0.0) == []
    commit(tmp_path, 1, {"path": "/a"}, {"path": "/b", "site": "other"})
    assert sorted(row["path"] for row in tail.new(1.0)) == ["/a", "/b"]
    assert tail.new(2.0) == []
    commit(tmp_path, 3, {"path": "/c"})
    commit(tmp_path, 4, {"site": "s", "value": b"\x16\x03", "reasons": ["no_time"]}, table="silver.rejected")
    assert [row.get("path") or row["reasons"] for row in tail.new(4.0)] == ["/c", ["no_time"]]
    assert tail.rate == pytest.approx(4 / 4)


def test_filters_and_a_site_choose_lines(tmp_path: Path) -> None:
    commit(
        tmp_path, 1, {"status": 404, "site": "a"}, {"status": 200, "site": "a"}, {"status": 404, "site": "b"}
    )
    found = Tail(DeltaReader(tmp_path), "a", filters_of(["status^4"]), NOW).new(0.0)
    assert [(row["site"], row["status"]) for row in found] == [("a", 404)]


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


def test_the_command_prints_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = (datetime.now(UTC) - NOW) / timedelta(seconds=1) + 60
    commit(tmp_path, round(later), {"path": "/\x1b[31m"}, {"status": None})
    done = CliRunner().invoke(tidemark, ["tail", "--json", "--seconds", "0", "--home", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = [json.loads(text) for text in done.stdout.splitlines()]
    assert {each["path"] for each in found} == {"/\x1b[31m", PROTO["path"]} and "\x1b" not in done.stdout
    text = CliRunner().invoke(tidemark, ["tail", "--seconds", "0", "--home", str(tmp_path)])
    assert "\\x1b[31m" in text.stdout and "\x1b" not in text.stdout
