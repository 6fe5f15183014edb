"""Single lines of public reports and of vendors' documentation, one object each with its source in
reported_lines.jsonl, and what is right for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.parse.test_cases import rows_of

REPORTED = [
    json.loads(line)
    for line in Path(__file__).with_name("reported_lines.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, dict[str, Any]]:
    """The lines, read among each other as of one file."""
    directory = tmp_path_factory.mktemp("reported")
    text = "".join(f"{each['line']}\n" for each in REPORTED)
    (directory / "lines.log").write_text(text, encoding="utf-8")
    return {row["value"]: row for row in rows_of(directory, directory, [])}


@pytest.mark.parametrize("reported", REPORTED, ids=lambda each: each["source"])
def test_a_reported_line_is_read(reported: dict[str, Any], rows: dict[bytes, dict[str, Any]]) -> None:
    row, expected = rows[reported["line"].encode()], reported["expect"]
    assert row["accepted"], row["reasons"]
    read = {name: row[name] for name in ("client_ip", "host", "method", "path", *expected) if name != "time"}
    read["time"] = row["event_time"].isoformat().replace("+00:00", "Z")
    assert read == {**dict.fromkeys(("client_ip", "host", "method", "path")), **expected}
