"""The generator's lines of every format: all are read, and the same traffic gives the same tables."""

from __future__ import annotations

import random
import threading
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bronze import access_log
from silver import requests
from tests.pipeline.without_spark import ARRIVED, bronze
from tests.traffic.generated import generate
from tidemark import pipeline
from tidemark.engine.work import Part, Work
from tidemark.importing.comments import Comments
from tidemark.importing.lines import LineSplitter
from tidemark.parse.columns import Knowledge
from tidemark.parse.formats import FORMATS
from tidemark.settings.sections import MeaningSettings
from tidemark.traffic.lines import APACHE, line_format, lines_of, with_request_time
from tidemark.traffic.malformed import ANY_FORMAT, KINDS, Spoiler
from tidemark.traffic.robots import Hit
from tidemark.traffic.sinks import first_lines, headers_of, write_file
from tidemark.traffic.stream import Traffic, blocks

START = 1_780_000_000
# Columns of requests that depend on fields that some formats lack, or write differently.
LACKING = {"protocol", "host", "referrer", "referrer_host", "channel", "source", "browser", "os", "device"}
# Columns of other tables: of visitors, whose ids depend on the exact user agent, and of the run.
OWN = {"updated_at", "visitors_sketch", "session_id", "visitor_id", "format"}
NO_SIZES = {name: {"bytes"} for name in ("zoraxy", "gin", "php_server")}
# Without a method a request that sends a form may be a pageview.
NO_METHODS = {"bunny"}
# Formats whose durations are whole seconds.
ROUNDED = ("gandi", "icecast")
TIMES = {"gold.latency", "gold.page_latency"}


def traffic(format: str) -> Traffic:
    return Traffic(start=START, seconds=700, rate=1, seed=5, visitors=60, format=format)


@cache
def hits(format: str) -> list[tuple[int, Hit]]:
    """The same hits for `combined` and `common` as in any other format with user agents, or without."""
    return [(second, hit) for block in blocks(traffic(format)) for second, hit, _ in block.outcomes]


def same_hits(format: str) -> list[tuple[int, Hit]]:
    return hits("combined" if line_format(format).agents else "common")


@cache
def logged(format: str) -> list[bytes]:
    """The lines of the same hits; those of Apache's family have the request time, as others by themselves."""
    hits = same_hits(format)
    if format not in APACHE:
        return lines_of(format, hits)
    form = with_request_time(APACHE[format])
    return [line for second, hit in hits for line in form([hit], second)]


def validated(format: str, lines: list[bytes], *, again: bool = False) -> pa.Table:
    headers = {name: value.decode() for name, value in headers_of(traffic(format))}
    rows = bronze([("default", line) for line in lines], headers)
    assert set(rows.column_names) <= {*access_log.TABLE.column_names}
    return requests.validation(Knowledge(b"k" * 32), again=again).add(rows)


@cache
def tables(format: str) -> dict[str, list[dict[str, Any]]]:
    """Every table that is made of the requests, by name, without the columns LACKING and OWN."""
    result = validated(format, logged(format))
    assert [row["reasons"] for row in result.select(["reasons"]).to_pylist() if row["reasons"]] == []
    assert set(result["read_as"].to_pylist()) == {format}
    rows = Work().rows(requests.TABLE, Part("accepted"), result)
    for at, name in enumerate(rows.column_names):
        if name in LACKING:
            rows = rows.set_column(at, name, pa.nulls(len(rows), rows.schema.field(name).type))
    newest = {"default": ARRIVED}
    content, content_of = {}, {"silver.requests": rows}
    for table in pipeline.LAYER_TABLES:
        if table.aggregation and not table.package:
            each = table.aggregation(MeaningSettings()).at(newest)
            change = each.combine(
                table.arrow_schema.empty_table(),
                each.partial(content_of[table.reads].select(list(each.needs))),
            )
            content_of[table.name] = change.rows
            kept = [name for name in table.column_names if name not in OWN]
            content[table.name] = sorted(change.rows.select(kept).to_pylist(), key=repr)
    return content


@pytest.mark.parametrize("format", [name for name in FORMATS if name not in NO_METHODS])
def test_the_same_traffic_gives_the_same_tables_in_every_format(format: str) -> None:
    expected, result = tables("combined" if line_format(format).agents else "common"), tables(format)
    timed = format in APACHE or (line_format(format).timed and format not in ROUNDED)
    assert len(expected["silver.sessions"]) > 15
    for name in expected.keys() - (set() if timed else TIMES):
        rows = expected[name]
        drop = NO_SIZES.get(format, set())
        assert [{k: v for k, v in row.items() if k not in drop} for row in result[name]] == [
            {k: v for k, v in row.items() if k not in drop} for row in rows
        ], name


@pytest.mark.parametrize("format", FORMATS)
def test_lines_have_the_duration_of_the_response_if_their_format_has_one(format: str) -> None:
    hits = same_hits(format)
    seconds = [float(hit[1].seconds) for _, hit in hits]
    expected = [round(each * 1e6) for each in seconds] if line_format(format).timed else [None] * len(hits)
    if format in ROUNDED:
        expected = [int(each) * 1_000_000 for each in seconds]
    assert validated(format, lines_of(format, hits))["duration_us"].to_pylist() == expected


@pytest.mark.parametrize("format", FORMATS)
def test_malformed_lines_of_every_format_are_rejected_for_their_reasons(format: str) -> None:
    spoiler = Spoiler(random.Random(1), KINDS if format in APACHE else ANY_FORMAT)
    spoiled = [spoiler.spoil(line) for line in logged(format)[:200]]
    result = validated(format, [line for line, _ in spoiled])
    assert [row["reasons"][:1] for row in result.select(["reasons"]).to_pylist()] == [
        [reason] for _, reason in spoiled
    ]


@pytest.mark.parametrize("format", ["iis_w3c", "w3c_extended", "ovh"])
def test_a_rebuild_reads_the_lines_of_bronze_with_their_headers(format: str) -> None:
    first, second = (validated(format, logged(format)[:100], again=again) for again in (False, True))
    columns = [name for name in first.column_names if name != "ingested_at"]
    assert second.select(columns).to_pylist() == first.select(columns).to_pylist()
    assert set(second["read_as"].to_pylist()) == {format}


@pytest.mark.parametrize("format", ["combined", "iis_w3c", "w3c_extended"])
def test_a_file_has_the_comments_of_its_format(format: str, tmp_path: Path) -> None:
    generated, path = traffic(format), tmp_path / "some.log"
    write_file(blocks(generated, truth=False), path, threading.Event(), head=first_lines(generated))
    splitter, comments = LineSplitter(), Comments()
    data = path.read_bytes()
    result = [
        (line, part.fields) for part in comments.without(splitter.feed(data), data) for line in part.lines
    ]
    fields = dict(headers_of(generated)).get("fields", b"").decode()
    assert result == [(line.value, fields) for line in generate(generated)]
