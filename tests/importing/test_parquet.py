"""Rows of Parquet files as lines that the formats read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tidemark.errors import InputError
from tidemark.importing.parquet import json_lines, w3c_fields
from tidemark.importing.sources import blocks_of
from tidemark.parse.explain import explained

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)


def table(path: Path, columns: Mapping[str, Sequence[Any] | pa.Array]) -> Path:
    parquet.write_table(pa.table(dict(columns)), path)
    return path


def test_rows_of_cloudfront_are_lines_of_the_w3c(tmp_path: Path) -> None:
    path = table(
        tmp_path / "E1.parquet",
        {
            "date": ["2026-11-21"] * 2,
            "time": ["10:00:00"] * 2,
            "c_ip": ["203.0.113.7"] * 2,
            "cs_method": ["GET"] * 2,
            "cs_host": ["d1.cloudfront.net"] * 2,
            "cs_uri_stem": ["/docs/", "/a\tb"],
            "sc_status": ["200"] * 2,
            "cs_referer": ["https://example.org/a", None],
            "cs_user_agent": ["curl/8.5.0%20(test)"] * 2,
            "time_taken": ["0.217"] * 2,
        },
    )
    blocks = [(block.lines, block.fields) for block in blocks_of(str(path)) if block.lines]
    assert blocks[0][0][1].count(b"\t") == 9
    (kind,) = explained(blocks)
    values = {
        name: kind.columns[name] for name in ("event_time", "path", "status", "user_agent", "duration_us")
    }
    assert (kind.format, kind.count, kind.fault) == ("w3c_extended", 2, "")
    assert values == {
        "event_time": AT,
        "path": "/docs/",
        "status": 200,
        "user_agent": "curl/8.5.0 (test)",
        "duration_us": 217_000,
    }


def test_other_rows_are_json(tmp_path: Path) -> None:
    path = table(
        tmp_path / "edge",  # Recognised by its first bytes.
        {
            "timestamp": pa.array([AT, AT], pa.timestamp("ns", "UTC")),
            "client_ip": ["203.0.113.7", "203.0.113.8"],
            "request_method": ["GET", "GET"],
            "request_uri": ['/a?b="c\\', "/ü"],
            "status": [200, 404],
            "user_agent": pa.array(["x", None]).dictionary_encode(),
        },
    )
    blocks = [(block.lines, block.fields) for block in blocks_of(str(path))]
    (kind,) = explained(blocks)
    assert (kind.format, kind.count, kind.columns["event_time"]) == ("nginx_json", 2, AT)
    assert [json.loads(line)["request_uri"] for line in blocks[0][0]] == ['/a?b="c\\', "/ü"]
    assert "user_agent" not in json.loads(blocks[0][0][1])


def test_every_value_is_json() -> None:
    values: dict[str, Any] = {
        'a "name"': 'quo"te\\ and\nline\x01',
        "flag": True,
        "number": 7,
        "half": 0.5,
        "nested": {"a": [1, None]},
        "bytes": b"x\xff",
    }
    batch = pa.RecordBatch.from_pylist([values, dict.fromkeys(values)])
    first, second = (json.loads(line) for line in json_lines(batch).to_pylist())
    assert first == {**values, "half": "0.5", "bytes": "x�"}
    assert second == {}


def test_names_of_fields() -> None:
    assert w3c_fields(["date", "time", "sc_status", "cs(Host)", "DistributionId"])[2:] == [
        "sc-status",
        "cs(Host)",
        "DistributionId",
    ]
    assert w3c_fields(["date", "time", "srcaddr"]) == []


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"a": ["x"]})
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="no Parquet file that can be read"):
        list(blocks_of(str(path)))
