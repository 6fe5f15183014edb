"""Accounting of a job's batches: how many of the records that a batch read are valid, and how many are not.

A query that writes adds a row to quality.accounts per batch, after its tables. Spark counts the records where they are
read, in front of any operator with state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.contract.quality_tables import ACCOUNTS, PROGRESS
from tidemark.contract.store import Commit, Store
from tidemark.stream.accounting import Account, account_facts, commit_account
from tidemark.stream.crash import crash_point
from tidemark.stream.query import Facts, Query

# Every job has these besides its own.
TABLES = (ACCOUNTS, PROGRESS)

_OBSERVED = "accounts of "
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The queries of a process share the store's handle of the table.
_ONE_AT_A_TIME = Lock()


def observed(records: DataFrame, topic: str, accepted: Column, arrived: Column) -> DataFrame:
    """The records of a stream, counted while they are read. `accepted`: whether a record is valid; `arrived`: its
    time in Kafka."""
    counts = (F.count_if(accepted), F.count_if(~accepted), F.max(F.unix_micros(arrived)))
    return records.observe(
        f"{_OBSERVED}{topic}", *(c.alias(n) for c, n in zip(counts, ("ok", "bad", "newest"), strict=True))
    )


def accounted(query: Query, spark: SparkSession, store: Store, *, collected: bool) -> Query:
    """The query, whose batches are accounted for and reported.

    The rows of a query without `observed` records all count as accepted. The write of a `collected` query validates
    records itself, and returns `accepted`, `rejected` and `newest_kafka_timestamp`.
    """
    inner = query.write
    if inner is None or query.own_positions:
        return query

    def write(batch: DataFrame, commit: Commit) -> Facts:
        started = datetime.now(UTC)
        if collected:
            counts = inner(batch, commit) or {}
        else:
            batch.persist()
            try:
                # Every row is read once here, whatever the query needs of the batch.
                rows = batch.count()
                counts = _counts(batch, spark) or {"accepted": rows}
                inner(batch, commit)
            finally:
                batch.unpersist()
        sums = {"rejected": 0, "late": 0, "newest_kafka_timestamp": None, "newest_event_time": None, **counts}
        account = Account([sums])
        crash_point(f"{query.name}:before-ledger")
        with _ONE_AT_A_TIME:
            commit_account(store, query.name, account, started, commit)
        return account_facts(account)

    return replace(query, write=write, commits=(*query.commits, ACCOUNTS))


def _counts(batch: DataFrame, spark: SparkSession) -> Mapping[str, Any]:
    """The counts of all observed topics, once the batch has been read; empty if there are none."""
    id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    query = spark.streams.get(id) if id else None
    assert query, "a batch belongs to a query"
    metrics = query._jsq.streamingQuery().lastExecution().observedMetrics().iterator()
    accepted, rejected, newest, has_row = 0, 0, -1, False
    while metrics.hasNext():
        pair = metrics.next()
        if pair._1().startswith(_OBSERVED):
            row, has_row = pair._2(), True
            accepted, rejected = accepted + row.getLong(0), rejected + row.getLong(1)
            newest = newest if row.isNullAt(2) else max(newest, row.getLong(2))
    if not has_row:
        return {}
    arrived = _EPOCH + timedelta(microseconds=newest) if newest >= 0 else None
    return {"accepted": accepted, "rejected": rejected, "newest_kafka_timestamp": arrived}
