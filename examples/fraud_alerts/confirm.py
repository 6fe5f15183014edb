"""The exact path: judges each micro-batch and writes verdicts, payments and states in one
transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.fraud_alerts.customer import Claim, Payment, decode
from examples.fraud_alerts.judge import NEVER, PROVISIONAL, Claimed, Decisions, Judge, Place, Verdict
from examples.fraud_alerts.limits import LIMITS
from examples.fraud_alerts.money import EURO_CENTS_SQL
from examples.fraud_alerts.provisional import Provisional
from examples.fraud_alerts.topics import ALERTS, DEVICES, JUDGED, STATES, TRANSACTIONS
from tidemark import kafka
from tidemark.jobs.events import good, judged
from tidemark.jobs.job import Sources
from tidemark.jobs.transactions import Record, Transactions
from tidemark.store.base import Commit

_CLAIM = "transaction string, customer string, rule string, status string, time long"


def records(sources: Sources, topic: str) -> DataFrame:
    """All of a topic as a stream."""
    return (
        sources.spark.readStream.format("kafka")
        .options(**kafka.spark_options(sources.settings))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def inputs(sources: Sources) -> DataFrame:
    """Good payments, good reports of phones and provisional alerts, as one stream; times in ms."""
    alerts = records(sources, ALERTS).select(F.from_json(F.col("value").cast("string"), _CLAIM).alias("a"))
    claims = alerts.where(F.col("a.status") == PROVISIONAL).select(
        F.lit("claim").alias("kind"), F.col("a.transaction").alias("id"), F.col("a.customer").alias("customer"),
        F.col("a.rule").alias("rule"), F.col("a.time").alias("time"),
    )  # fmt: skip
    payments = good(judged(records(sources, TRANSACTIONS.topic), TRANSACTIONS)).select(
        F.lit("payment").alias("kind"), "id", "customer", F.expr(EURO_CENTS_SQL).alias("amount"), "merchant",
        "country", "latitude", "longitude", F.unix_millis("time").alias("time"),
        F.unix_millis("record.timestamp").alias("produced"), F.col("record.partition").alias("partition"),
        F.col("record.offset").alias("offset"),
    )  # fmt: skip
    places = good(judged(records(sources, DEVICES.topic), DEVICES)).select(
        F.lit("place").alias("kind"), "customer", "latitude", "longitude", F.unix_millis("time").alias("time"),
        F.col("record.partition").alias("partition"),
    )  # fmt: skip
    return claims.unionByName(payments, allowMissingColumns=True).unionByName(
        places, allowMissingColumns=True
    )


class Confirmation:
    """Judges the batches of `inputs`, and gives the fast path, if there is one, its profiles. The states are
    read from Kafka when the first batch comes."""

    def __init__(self, sources: Sources, provisional: Provisional | None = None) -> None:
        self._sources = sources
        self._transactions: Transactions | None = None
        self._provisional = provisional

    def write(self, batch: DataFrame, commit: Commit) -> None:
        """Judges and commits a batch, unless it was committed before a crash."""
        transactions = self._transactions or self._open()
        if transactions.done(commit):
            return
        rows = batch.toArrow().to_pylist()
        payments = sorted((row for row in rows if row["kind"] == "payment"), key=lambda row: row["offset"])
        places = [row for row in rows if row["kind"] == "place"]
        claims = [row for row in rows if row["kind"] == "claim"]
        for row in payments:
            self._positions[str(row["partition"])] = row["offset"] + 1
        decisions = self._judge.batch(
            [Payment(*[row[name] for name in Payment._fields]) for row in payments],
            [Place(*[row[name] for name in Place._fields]) for row in places],
            [Claimed(row["customer"], Claim(row["id"], row["rule"], row["time"])) for row in claims],
            _newest([*payments, *places]),
        )
        if rows:
            transactions.commit(
                commit,
                results(decisions, round(time.time() * 1000)),
                {name.encode(): self._judge.customers[name].encode() for name in decisions.changed},
                {"newest": self._judge.newest, "positions": self._positions},
            )
        if payments and self._provisional:
            behind = time.time() - max(row["produced"] for row in payments) / 1000
            self._provisional.refresh(self._judge.customers, self._positions, behind)

    def _open(self) -> Transactions:
        transactions = Transactions(self._sources.settings, STATES)
        customers = {name.decode(): decode(state) for name, state in transactions.states.items()}
        transactions.states.clear()
        newest = {
            f"{kind} {partition}": NEVER
            for kind, topic in (("payment", TRANSACTIONS.topic), ("place", DEVICES.topic))
            for partition in kafka.end_offsets(self._sources.settings, topic)
        }
        self._judge = Judge(LIMITS, newest | dict(transactions.facts.get("newest", {})), customers)
        self._positions: dict[str, int] = dict(transactions.facts.get("positions", {}))
        self._transactions = transactions
        return transactions


def _newest(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The newest event time of each partition."""
    found: dict[str, int] = {}
    for row in rows:
        partition = f"{row['kind']} {row['partition']}"
        found[partition] = max(found.get(partition, NEVER), row["time"])
    return found


def results(decisions: Decisions, now: int) -> Sequence[Record]:
    """The records that tell a batch's decisions: alerts by transaction, passed payments by customer."""
    alerts = [Record(ALERTS, v.transaction.encode(), alert(v, now)) for v in decisions.verdicts]
    passed = [
        Record(JUDGED, p.customer.encode(), json.dumps(p._asdict(), separators=(",", ":")).encode())
        for p in decisions.passed
    ]
    return alerts + passed


def alert(verdict: Verdict, now: int) -> bytes:
    """A verdict as JSON, with the time of decision (ms)."""
    return json.dumps({**verdict._asdict(), "decided_at": now}, separators=(",", ":")).encode()
