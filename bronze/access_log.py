"""bronze.access_log: every line, unchanged, kept without limit."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.contract.table import Column, Table

# Python and other readers support no time after 9999; a record without a timestamp has -1, just before 1970.
_TIMES = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))

# A shipper that cannot set headers of each record puts them into the JSON object around the line.
_KEYS = ("site", "format", "fields", "id")
_KEY_PREFIX = "tidemark_"
_OBJECT = "_object"

TABLE = Table(
    name="bronze.access_log",
    about="One row per Kafka record, byte for byte. Every other table can be rebuilt from it.",
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
        Column("value", "binary", "The raw line without its line end."),
        Column("kafka_timestamp", "timestamp", "When the line was produced to Kafka; NULL if the record has no "
               "timestamp, or one before 1970 or after 9998."),
        Column("ingested_at", "timestamp", "When Tidemark read the line."),
    ),
)  # fmt: skip


def access_log(records: DataFrame) -> DataFrame:
    """Converts Kafka records (with headers) to rows of the table, without `ingested_at`, which the batch adds."""
    return records.select("*", _object().alias(_OBJECT)).select(
        "topic",
        "partition",
        "offset",
        F.coalesce(_given("site"), F.lit("default")).alias("site"),
        *(_given(name).alias(name) for name in ("format", "fields", "id")),
        _header("chunk").alias("chunk"),
        # A record without a value is an empty line, not a missing one.
        F.coalesce("value", F.lit(b"")).alias("value"),
        F.when(F.col("timestamp").between(*map(F.lit, _TIMES)), F.col("timestamp")).alias("kafka_timestamp"),
    )


def _object() -> SparkColumn:
    """The keys of ours in a JSON object; NULL for other lines, which only the two cheap tests look at."""
    value = F.col("value")
    ours = F.startswith(value, F.lit(b"{")) & F.contains(value, F.lit(f'"{_KEY_PREFIX}'.encode()))
    schema = ", ".join(f"{_KEY_PREFIX}{name} string" for name in _KEYS)
    return F.when(ours, F.from_json(value.cast("string"), schema))


def _given(name: str) -> SparkColumn:
    """By the header, or else by the key of ours."""
    return F.coalesce(_header(name), F.col(_OBJECT)[f"{_KEY_PREFIX}{name}"])


def _header(name: str) -> SparkColumn:
    found = F.filter("headers", lambda header: header["key"] == name)
    # Any producer can send any bytes, and a string that is not UTF-8 would stop the stream.
    text = F.make_valid_utf8(F.get(found, F.lit(0))["value"].cast("string"))
    return F.when(F.size("headers") > 0, text)
