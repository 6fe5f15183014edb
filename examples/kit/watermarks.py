"""Watermarks that do not depend on how records fall into micro-batches.

Spark advances its watermark between batches, so the end of a batch decides which row is too late. Here each
record is compared with the records before it in its partition, like Flink's watermark per split:
a replay, a crash or another batch size gives the same result for every record.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Change, Column, Table


def watermark_table(job: str) -> Table:
    """The table `<job>.watermarks`: the newest event time of each partition of the job's topics."""
    return Table(
        name=f"{job}.watermarks",
        about="One row per partition that the job reads, with its newest event time.",
        kind="upsert",
        key=("topic", "partition"),
        time="",
        reads="",
        columns=(
            Column("topic", "string", "Topic."),
            Column("partition", "int", "Its partition."),
            Column("newest_event_time", "timestamp", "Highest event time so far."),
            Column("updated_at", "timestamp", "When the row last changed."),
        ),
    )


def newest(store: Store, table: Table, topic: str) -> dict[int, datetime]:
    """Newest event time by partition of `topic`, as of the last committed batch."""
    rows = store.read(table, [[("topic", "=", topic)]]).to_pylist()
    return {row["partition"]: row["newest_event_time"] for row in rows}


def with_watermark(batch: DataFrame, known: Mapping[int, datetime], time: str = "event_time") -> DataFrame:
    """Adds `watermark`: the newest event time of the earlier records of the partition, including those of earlier
    batches (`known`); null for the first record."""
    before = Window.partitionBy("record.partition").orderBy("record.offset").rowsBetween(
        Window.unboundedPreceding, -1
    )  # fmt: skip
    earlier = F.lit(None).cast("timestamp")
    if known:
        by_partition = F.map_from_arrays(
            F.array(*(F.lit(partition) for partition in known)), F.array(*(F.lit(t) for t in known.values()))
        )
        earlier = by_partition[F.col("record.partition")]
    # `greatest` ignores nulls.
    return batch.withColumn("watermark", F.greatest(F.max(time).over(before), earlier))


def advance(store: Store, table: Table, batch: DataFrame, commit: Commit, time: str = "event_time") -> None:
    """Commits the watermarks after the batch's records. This must be the batch's last commit: a
    batch that runs again must find the earlier watermarks."""
    if store.committed(table, commit.writer) >= commit.number:
        return
    newest = batch.groupBy(
        F.col("record.topic").alias("topic"), F.col("record.partition").cast("int").alias("partition")
    ).agg(F.max(time).alias("newest_event_time"))
    known = {
        (row["topic"], row["partition"]): row["newest_event_time"] for row in store.read(table).to_pylist()
    }
    now = datetime.now(UTC)
    rows = [
        {
            **row,
            "newest_event_time": max(row["newest_event_time"], known.get(key, row["newest_event_time"])),
            "updated_at": now,
        }
        for row in newest.toArrow().to_pylist()
        for key in [(row["topic"], row["partition"])]
    ]
    store.upsert(table, Change(pa.Table.from_pylist(rows, table.arrow_schema)), commit)
