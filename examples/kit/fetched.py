"""Validates collected records as JSON events in the driver, like `examples.kit.events`, without a Spark job.

Arrow's strict JSON reader parses whole blocks of records. A refused block is halved until the unusual
records are isolated. Records that no JSON reader accepts are rejected here. Spark decides on all other unusual records
(other quotes, a number where text is declared, text after the object), because its result is the definition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.kit.events import MISSING, NOT_JSON, WRONG_TYPE, Events, validated
from examples.kit.transactions import Record
from tidemark.engine.arrays import flags_of
from tidemark.engine.verdict import verdict
from tidemark.machine import validation_threads

# Columns of Kafka's records to select before collecting them.
RECORD = ("topic", "partition", "offset", "timestamp", "value")

_BLOCK_ROWS = 20_000
# Spark decides on longer records: its parser limits nesting and the length of numbers, from a thousand on.
_LONGEST = 1_000
# Arrow reads these as numbers if no quote precedes them; other readers do not.
_NO_NUMBERS = (b"NaN", b"Inf")
_NO_NUMBER = re.compile(rb"[^\"\w](NaN|Inf)")
_PARTS = 8
_TIME = pa.timestamp("us", tz="UTC")
_TYPES = {"string": pa.string(), "long": pa.int64(), "double": pa.float64(), "timestamp": _TIME}
_ISO = r"^(19|20)\d\d-\d\d-\d\d[T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused)

_Columns = Mapping[str, pa.Array]


class Validated(NamedTuple):
    """`good`: the events' fields and the columns of RECORD without the value. `bad`: RECORD and `reasons`, a list of
    strings. The order may differ from that of the records."""

    good: pa.Table
    bad: pa.Table

    @property
    def counts(self) -> dict[str, Any]:
        """The counts of an `Account`."""
        newest = [pc.max(rows["timestamp"]).as_py() for rows in self if rows.num_rows]
        counts = {"accepted": self.good.num_rows, "rejected": self.bad.num_rows, "late": 0}
        return {**counts, "newest_kafka_timestamp": max(newest, default=None), "newest_event_time": None}


def fetch(records: DataFrame) -> Iterator[pa.Table]:
    """The columns RECORD of a batch, in parts that are small enough to collect."""
    return _fetch(records.select(*RECORD), 1, 0)


def _fetch(records: DataFrame, step: int, place: int) -> Iterator[pa.Table]:
    part = records.where(F.pmod("offset", F.lit(step)) == place) if step > 1 else records
    try:
        table = part.toArrow()
    except (Py4JJavaError, PySparkException) as error:
        if "spark.driver.maxResultSize" not in str(error) or step > 1e6:
            raise
        for number in range(_PARTS):
            yield from _fetch(records, step * _PARTS, place + number * step)
        return
    yield table


def letters(bad: pa.Table, events: Events) -> list[Record]:
    """Records for `events.dead_letters`, like those of `examples.kit.events.dead_letters`."""
    return [
        Record(
            events.dead_letters,
            f"{row['topic']}/{row['partition']}/{row['offset']}".encode(),
            row["value"],
            (
                ("reason", ",".join(row["reasons"]).encode()),
                *((name, str(row[name]).encode()) for name in ("topic", "partition", "offset")),
            ),
        )
        for row in bad.to_pylist()
    ]


def validate(records: pa.Table, events: Events, spark: SparkSession) -> Validated:
    """Validates records (columns RECORD) of one topic, like `validated`."""
    schema = _schema(events)
    records = records.combine_chunks()
    values = _binary(records["value"])
    plain = _plain(values)
    rows = np.nonzero(plain)[0]
    blocks = [rows[start : start + _BLOCK_ROWS] for start in range(0, len(rows), _BLOCK_ROWS)]
    side_by_side = _threads().map if len(blocks) > 1 else map
    parts = [
        part
        for results in side_by_side(lambda block: _read(values, block, schema), blocks)
        for part in results
    ]
    read = np.concatenate([rows for rows, _ in parts]) if parts else rows[:0]
    fields = {
        field.name: pa.chunked_array([columns[field.name] for _, columns in parts], field.type)
        for field in schema
    }
    ours = _by_rules(records.take(pa.array(read)), fields, events)
    odd = np.ones(records.num_rows, bool)
    odd[read] = False
    return _joined(ours, *_odd_ones(records.filter(pa.array(odd)), schema, events, spark))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(validation_threads(), thread_name_prefix="validate")


def _schema(events: Events) -> pa.Schema:
    declared = (field.split() for field in events.schema.split(","))
    return pa.schema([(name, _TYPES[kind]) for name, kind in declared])


def _binary(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.cast(pa.large_binary()).chunks
    return pa.concat_arrays([pa.array([], pa.large_binary()), *chunks])


def _plain(values: pa.Array) -> np.ndarray:
    """Which records look ordinary."""
    return (
        flags_of(pc.starts_with(values, b"{"))
        & flags_of(pc.ends_with(values, b"}"))
        & flags_of(pc.less_equal(pc.binary_length(values), _LONGEST))
    )


def _read(values: pa.Array, rows: np.ndarray, schema: pa.Schema) -> list[tuple[np.ndarray, _Columns]]:
    """The fields of the rows that Arrow accepts, and the numbers of these rows."""
    if not len(rows):
        return []
    try:
        return [(rows, _parsed(values.take(pa.array(rows)), schema))]
    except pa.ArrowInvalid:
        middle = len(rows) // 2
        return _read(values, rows[:middle], schema) + _read(values, rows[middle:], schema) if middle else []


def _parsed(values: pa.Array, schema: pa.Schema) -> _Columns:
    """The fields of records that are each one object on one line. Raises ArrowInvalid if any is not."""
    texts = values.cast(pa.string())  # accepts UTF-8 only
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    lines = pc.binary_join(whole, "\n")[0].as_buffer()
    text = lines.to_pybytes()
    if text.count(b"\n") >= len(values):
        raise pa.ArrowInvalid("not one line each")
    if any(name in text for name in _NO_NUMBERS) and _NO_NUMBER.search(text):
        raise pa.ArrowInvalid("readers of JSON differ")
    read_as = [pa.field(f.name, pa.string() if pa.types.is_timestamp(f.type) else f.type) for f in schema]
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=max(lines.size, 1)),
        parse_options=pj.ParseOptions(explicit_schema=pa.schema(read_as), unexpected_field_behavior="ignore"),
    ).combine_chunks()
    if table.num_rows != len(values):
        raise pa.ArrowInvalid("not one object a line")
    return {field.name: _exact(pa.concat_arrays(table[field.name].chunks), field.type) for field in schema}


def _exact(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(wanted):
        if not pc.all(pc.match_substring_regex(column, _ISO), min_count=0).as_py():
            raise pa.ArrowInvalid("not a plain time")
        return column.cast(_TIME)
    if pa.types.is_floating(wanted) and not pc.all(pc.is_finite(column), min_count=0).as_py():
        raise pa.ArrowInvalid("not a number")
    return column


def _by_rules(records: pa.Table, fields: Mapping[str, pa.ChunkedArray], events: Events) -> Validated:
    there = {MISSING + name: pc.field(name).is_valid() for name in fields if name not in events.optional}
    rules = {rule.name: rule.accepts.arrow for rule in events.rules}
    checked = verdict({**there, **rules}, dict(fields) | {"record_timestamp": records["timestamp"]})
    kept = {name: records[name] for name in RECORD}
    reasons = pa.chunked_array([checked["reasons"]])
    accepted = checked["accepted"]
    good = pa.table(dict(fields) | {n: c for n, c in kept.items() if n != "value"}).filter(accepted)
    return Validated(good, pa.table(kept | {"reasons": reasons}).filter(pc.invert(accepted)))


def _odd_ones(
    records: pa.Table, schema: pa.Schema, events: Events, spark: SparkSession
) -> Iterator[Validated]:
    """Decides on unusual records, here if it is clear, otherwise with Spark."""
    if not records.num_rows:
        return
    faults = [_fault(value, schema) for value in records["value"].to_pylist()]
    known = np.array([reason is not None for reason in faults])
    reasons = pa.array([[reason] for reason in faults if reason is not None], pa.list_(pa.string()))
    yield Validated(records.slice(0, 0), records.filter(pa.array(known)).append_column("reasons", reasons))
    unsure = records.filter(pa.array(~known))
    if unsure.num_rows:
        checked = validated(spark.createDataFrame(unsure), events)
        place = [F.col("record")[name].alias(name) for name in RECORD]
        names = schema.names
        rows = checked.select(*names, *place, "accepted", "reasons").toArrow()
        good = rows.filter(rows["accepted"]).select([*names, *(name for name in RECORD if name != "value")])
        yield Validated(good, rows.filter(pc.invert(rows["accepted"])).select([*RECORD, "reasons"]))


def _fault(value: bytes | None, schema: pa.Schema) -> str | None:
    """The reason to reject a record, if all JSON readers agree; None if Spark must decide."""
    try:
        text = (value or b"").decode().lstrip(" ")
    except UnicodeDecodeError:
        return NOT_JSON
    if not text.startswith("{"):
        return NOT_JSON
    # Quotes that only some readers accept, and half of a surrogate pair.
    if "'" in text or "\\u" in text or len(text) > _LONGEST:
        return None
    try:
        event, _ = _DECODER.raw_decode(text)
    except ValueError:
        return NOT_JSON
    except RecursionError:
        return None
    flat = [field.name for field in schema if not pa.types.is_string(field.type)]
    return WRONG_TYPE if any(isinstance(event.get(name), dict | list) for name in flat) else None


def _joined(first: Validated, *others: Validated) -> Validated:
    good = [one.good for one in (first, *others) if one.good.num_rows]
    bad = [one.bad for one in (first, *others) if one.bad.num_rows]
    return Validated(
        pa.concat_tables(table.cast(first.good.schema) for table in [first.good.slice(0, 0), *good]),
        pa.concat_tables(
            table.select([*RECORD, "reasons"]).cast(first.bad.schema)
            for table in [first.bad.slice(0, 0), *bad]
        ),
    )
