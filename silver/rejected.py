"""silver.rejected: every rejected line, with the reasons and its bytes (quarantine)."""

from __future__ import annotations

from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table

TABLE = Table(
    name="silver.rejected",
    about="One row per rejected line, with the rules that it breaks and its unchanged bytes.",
    kind="append",
    key=("topic", "partition", "offset"),
    time="kafka_timestamp",
    clock="rejected_at",
    reads="bronze.access_log",
    expects=(Expectation("has_reasons", column("reasons").size() >= 1, "reasons", "A rejected line says why."),),
    lines="rejected",
    quiet=True,
    columns=(
        Column("topic", "string", "Kafka topic."),
        Column("partition", "int", "Kafka partition."),
        Column("offset", "long", "Offset in the partition."),
        Column("site", "string", "Site of the line."),
        Column("value", "binary", "The raw line, byte for byte."),
        Column("reasons", "strings", "Names of the rules of silver.requests that the line breaks; `delivered_twice`: "
               "none, but a rebuild accepted another delivery of it."),
        Column("nearest_format", "string", "Format of the line, or the one that it is nearly of; NULL if there is "
               "none.", of="nearest"),
        Column("failed_field", "string", "The field for which the line is rejected, or the first that it lacks of "
               "that format; `end` if something follows its last one.", of="lacks"),
        Column("kafka_timestamp", "timestamp", "When the line was produced to Kafka; NULL if bronze has none."),
        Column("rejected_at", "timestamp", "When Tidemark rejected the line.", of="ingested_at"),
    ),
)  # fmt: skip
