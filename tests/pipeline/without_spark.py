"""All tables of some lines, made over Arrow arrays within seconds: the pipeline's own functions, one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from silver import rejected, requests
from tests.pipeline.compare import Read
from tests.pipeline.recount import Row
from tidemark import pipeline
from tidemark.engine.work import Part, Work
from tidemark.figures.declared import Goal
from tidemark.parse.columns import Knowledge
from tidemark.parse.reading import PLAIN, Reading
from tidemark.settings.sections import MeaningSettings

ARRIVED = datetime(2026, 11, 1, tzinfo=UTC)


def bronze(pairs: Sequence[tuple[str, bytes]], headers: Mapping[str, str] | None = None) -> pa.Table:
    """Rows of bronze.access_log with what is needed of them, from (site, line) pairs and headers of all."""
    size, texts = len(pairs), headers or {}
    arrived = pa.array([ARRIVED] * size, pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "topic": ["log"] * size,
            "partition": pa.array([0] * size, pa.int32()),
            "offset": pa.array(range(size), pa.int64()),
            "site": pa.array([site for site, _ in pairs], pa.string()),
            "value": pa.array([line for _, line in pairs], pa.binary()),
            **{name: pa.array([texts.get(name)] * size, pa.string()) for name in ("format", "fields")},
            "chunk": pa.nulls(size, pa.string()),
            "kafka_timestamp": arrived,
            "ingested_at": arrived,
        }
    )


def tables_of(
    pairs: Iterable[tuple[str, bytes]],
    reading: Reading = PLAIN,
    goals: Mapping[str, Goal] | None = None,
) -> dict[str, pa.Table]:
    """Every table of (site, line) pairs, by name."""
    lines = bronze(list(pairs))
    validated = requests.validation(Knowledge(b"k" * 32, reading=reading)).add(lines)
    rows = Work().rows(requests.TABLE, Part("accepted"), validated)
    actual = {
        "bronze.access_log": lines,
        "silver.requests": rows,
        "silver.rejected": Work().rows(rejected.TABLE, Part("accepted", False), validated),
    }
    sites = pa.TableGroupBy(rows, "site").aggregate([("event_time", "max")])
    newest = dict(zip(sites["site"].to_pylist(), sites["event_time_max"].to_pylist(), strict=True))
    for table in pipeline.LAYER_TABLES:
        if table.aggregation and not table.package:
            each = table.aggregation(MeaningSettings(goals=goals or {})).at(newest)
            change = each.combine(
                table.arrow_schema.empty_table(), each.partial(actual[table.reads].select(list(each.needs)))
            )
            actual[table.name] = change.rows
    return actual


def reader_of(tables: Mapping[str, pa.Table]) -> Read:
    """Reads rows of these tables."""

    def read(table: str, columns: Sequence[str]) -> list[Row]:
        values = []
        for name in columns:
            column = tables[table][name]
            if pa.types.is_timestamp(column.type):
                column = pc.divide(column.cast(pa.timestamp("us", "UTC")).cast("int64"), 1_000_000)
            values.append(column.to_pylist())
        return list(zip(*values, strict=True))

    return read
