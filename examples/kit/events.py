"""JSON events of a topic: declaration, validation, and the split into good rows and dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidemark.contract.rules import RejectingRule

NOT_JSON = "not_json"
WRONG_TYPE = "wrong_type"
MISSING = "missing_"

BATCH_RECORDS = 200_000

_CORRUPT = "_corrupt"


@dataclass(frozen=True)
class Events:
    """A topic whose records are JSON objects.

    `schema` is Spark DDL (`"lift string, event_time timestamp"`; times are ISO 8601). Every field is required
    and not null unless `optional` names it. `rules` are further conditions over the fields and `record_timestamp`, the
    record's time in Kafka. `partitions` is the topic's number of partitions on creation.
    `batch_records` is the maximum per micro-batch, for queries that collect records to the driver.
    For a topic that is not JSON, `validate` replaces `validated`, and the schema is empty.
    If `collected`, the job's own query collects the records, validates them with `examples.kit.fetched` and sends the
    dead letters.
    """

    topic: str
    schema: str
    optional: Sequence[str] = ()
    rules: tuple[RejectingRule, ...] = ()
    partitions: int = 2
    validate: Callable[[DataFrame], DataFrame] | None = None
    batch_records: int = BATCH_RECORDS
    collected: bool = False

    @property
    def dead_letters(self) -> str:
        """The topic of invalid records."""
        return f"{self.topic}.dead-letters"


def validated(records: DataFrame, events: Events) -> DataFrame:
    """Parses Kafka records (the columns of Spark's `kafka` source) of one topic.

    Returns the event's fields; `record`, a struct of the record's topic, partition, offset, timestamp and
    value; `accepted`, whether the event is valid; and `reasons`, an array of strings: empty for a valid event,
    else only `not_json`, only `wrong_type`, or `missing_<field>` for each and the names of broken rules.
    """
    if events.validate is not None:
        return events.validate(records)
    text = F.col("value").cast("string")
    options = {"columnNameOfCorruptRecord": _CORRUPT, "allowNonNumericNumbers": "false"}
    event = F.from_json(text, f"{events.schema}, {_CORRUPT} string", options)
    parsed = records.select(
        F.struct("topic", "partition", "offset", "timestamp", "value").alias("record"),
        _is_object(text).alias("_object"),
        # With a plain column the optimizer would copy the parsing into every condition, once per field.
        F.explode(F.array(event)).alias("_event"),
    ).select("record", F.col("record.timestamp").alias("record_timestamp"), "_object", "_event.*")
    schema = StructType.fromDDL(events.schema)
    assert isinstance(schema, StructType)
    names = schema.names
    broken = {MISSING + name: F.col(name).isNull() for name in names if name not in events.optional}
    broken |= {r.name: ~F.coalesce(F.expr(r.accepts.sql), F.lit(False)) for r in events.rules}
    whole = F.col("_object") & F.col(_CORRUPT).isNull()
    reasons = (
        F.when(~F.col("_object"), F.array(F.lit(NOT_JSON)))
        .when(
            F.col(_CORRUPT).isNotNull(),
            F.array(
                F.when(F.try_parse_json(F.col(_CORRUPT)).isNull(), F.lit(NOT_JSON)).otherwise(
                    F.lit(WRONG_TYPE)
                )
            ),
        )
        .otherwise(names_of(broken))
    )
    accepted = reduce(Column.__and__, [~fault for fault in broken.values()], whole)
    return parsed.select(*names, "record", accepted.alias("accepted"), reasons.alias("reasons"))


def good(validated_events: DataFrame) -> DataFrame:
    """The valid events: their fields, and `record` without the value."""
    rows = validated_events.where("accepted")
    return rows.withColumn("record", F.col("record").dropFields("value")).drop("accepted", "reasons")


def dead_letters(validated_events: DataFrame, events: Events) -> DataFrame:
    """The invalid events as records for `events.dead_letters`: topic, key, value, headers.

    The value is the original bytes. The header `reason` has the reasons, comma-separated;
    `topic`, `partition` and `offset` are the origin. They also form the key: Kafka may get
    a record twice after a crash, and a reader takes each key once.
    """
    place = [F.col("record.topic"), F.col("record.partition"), F.col("record.offset")]
    return validated_events.where(~F.col("accepted")).select(
        F.lit(events.dead_letters).alias("topic"),
        F.concat_ws("/", *place).cast("binary").alias("key"),
        F.col("record.value").alias("value"),
        F.array(
            _header("reason", F.concat_ws(",", "reasons")),
            *(_header(n, c) for n, c in zip(("topic", "partition", "offset"), place, strict=True)),
        ).alias("headers"),
    )


def _is_object(text: Column) -> Column:
    # The parser would also accept an array of one object, and read a record without a value as nulls.
    return F.coalesce(F.is_valid_utf8(text) & F.ltrim(text).startswith("{"), F.lit(False))


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def names_of(broken: Mapping[str, Column]) -> Column:
    """The names of the conditions that are true, in their order, as an array of strings."""
    if not broken:
        return F.array().cast("array<string>")
    return F.array_compact(F.array(*(F.when(is_so, F.lit(name)) for name, is_so in broken.items())))
