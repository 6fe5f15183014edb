"""bronze.access_log: every line as the privacy mode of its site leaves it, by default unchanged."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.table import Column, Table
from tidemark.kafka.records import KEY_MARK, KEY_PREFIX, KEYS, own_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Python and other readers support no time after 9999; a record without a timestamp has -1, just before 1970.
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9998, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)

_OBJECT = "_object"

TABLE = Table(
    name="bronze.access_log",
    about="One row per Kafka record, byte for byte unless it is masked. Every other table can be rebuilt from it.",
    kind="append",
    key=("topic", "partition", "offset"),
    time="kafka_timestamp",
    clock="ingested_at",
    reads="topic access-log",
    lines="all",
    columns=(
        Column("topic", "string", "Kafka topic."),
        Column("partition", "int", "Kafka partition."),
        Column("offset", "long", "Offset in the partition."),
        Column("site", "string", "Site of the line: header `site`, or the key `tidemark_site` of a JSON object, else "
               "`default`."),
        Column("format", "string", "Log format named by the sender: header `format`, or key `tidemark_format`; "
               "NULL: detected."),
        Column("fields", "string", "Names of the columns of a line of a W3C log: header `fields`, or key "
               "`tidemark_fields`."),
        Column("id", "string", "Delivery id of a sender that may repeat lines: header `id`, or key `tidemark_id`."),
        Column("chunk", "string", "Number of this part of an overlong line: header `chunk`."),
        Column("value", "binary", "The raw line without its line end, or what the privacy mode leaves of it."),
        Column("privacy", "string", "Mode by which the line is masked, and what it does not say any more, such as its "
               "visitor: header `privacy`, if it is sealed with the visitor key; NULL: not masked."),
        Column("kafka_timestamp", "timestamp", "When the line was produced to Kafka; NULL if the record has no "
               "timestamp, or one before 1970 or after 9998."),
        Column("event_time", "timestamp", "Time in the line, by which it is kept; NULL if none could be read, and in "
               "rows of earlier versions."),
        Column("ingested_at", "timestamp", "When Tidemark read the line."),
    ),
)  # fmt: skip


def access_log(records: DataFrame) -> DataFrame:
    """Converts Kafka records (with headers) to rows of the table, without `ingested_at`, which the batch adds."""
    # As SQL: composing it from columns would take hundreds of calls from Python to the JVM.
    return records.selectExpr("*", f"{_object()} AS {_OBJECT}").selectExpr(
        "topic",
        "partition",
        "offset",
        f"coalesce({_given('site')}, 'default') AS site",
        *(f"{_given(name)} AS {name}" for name in ("format", "fields", "id")),
        f"{_header('chunk')} AS chunk",
        f"{_header('privacy')} AS privacy",
        # A record without a value is an empty line, not a missing one.
        "coalesce(value, X'') AS value",
        f"CASE WHEN timestamp BETWEEN TIMESTAMP'{_FIRST}' AND TIMESTAMP'{_LAST}' THEN timestamp END AS kafka_timestamp",
    )


def _object() -> str:
    """The keys of ours in a JSON object; NULL for other lines, which only the two cheap tests look at."""
    ours = f"startswith(value, X'{b'{'.hex()}') AND contains(value, X'{KEY_MARK.hex()}')"
    schema = ", ".join(f"{KEY_PREFIX}{name} string" for name in KEYS)
    return f"CASE WHEN {ours} THEN from_json(CAST(value AS string), '{schema}') END"


def _given(name: str) -> str:
    """By the header, or else by the key of ours."""
    return f"coalesce({_header(name)}, {_OBJECT}.{KEY_PREFIX}{name})"


def _header(name: str) -> str:
    value = f"get(filter(headers, header -> header.key = '{name}'), 0).value"
    # Any producer can send any bytes, and a string that is not UTF-8 would stop the stream.
    return f"CASE WHEN size(headers) > 0 THEN make_valid_utf8(CAST({value} AS string)) END"


def lines(records: pa.Table, topic: str, first: int, arrived: datetime) -> pa.Table:
    """The same for records that were not in Kafka: `value`, and what headers would say in `site`, `format`, `fields`
    and `chunk` (NULL without). They get the offsets from `first` on, and arrived together."""
    size = records.num_rows
    columns = {
        **{name: records[name] for name in records.column_names},
        "id": pa.nulls(size, pa.string()),
        "topic": pa.repeat(pa.scalar(topic, pa.string()), size),
        "partition": pa.repeat(pa.scalar(0, pa.int32()), size),
        "offset": pa.array(range(first, first + size), pa.int64()),
        "privacy": pa.nulls(size, pa.string()),
        "kafka_timestamp": pa.repeat(pa.scalar(arrived, pa.timestamp("us", tz="UTC")), size),
    }
    return rows(pa.table(columns))


def rows(records: pa.Table) -> pa.Table:
    """The same as `access_log` for records in Arrow, whose headers are columns of their names."""
    columns = {name: records[name] for name in records.column_names} | _own_keys(records)
    columns["site"] = pc.fill_null(columns["site"], "default")
    time = columns["kafka_timestamp"]
    possible = pc.and_(pc.greater_equal(time, _FIRST), pc.less_equal(time, _LAST))
    columns["kafka_timestamp"] = pc.if_else(possible, time, None)
    # The validation adds the other columns.
    schema = pa.schema([field for field in TABLE.arrow_schema if field.name in columns])
    return pa.table({name: columns[name] for name in schema.names}, schema)


def may_have_ids(records: pa.Table) -> bool:
    """Whether any of these records may have a delivery id: only one with keys of ours."""
    return bool(pc.any(_has_keys(records["value"])).as_py())


def _has_keys(value: pa.ChunkedArray) -> pa.ChunkedArray:
    objects = pc.starts_with(value, b"{")
    return pc.and_(objects, pc.match_substring(value, KEY_MARK)) if pc.any(objects).as_py() else objects


def _own_keys(records: pa.Table) -> dict[str, pa.Array]:
    """The columns that lines with our keys say, where no header does; empty without such lines."""
    value = records["value"]
    has_keys = _has_keys(value)
    if not pc.any(has_keys).as_py():
        return {}
    objects = [own_keys(line.as_py()) for line in value]
    given = {name: records[name] for name in KEYS if name in records.column_names}
    own = {name: pa.array([each.get(name) for each in objects], pa.string()) for name in KEYS}
    return {name: pc.coalesce(given[name], own[name]) if name in given else own[name] for name in KEYS}
