"""The exact path: judges each micro-batch and writes verdicts, accepted payments and states in one
transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.fraud_alerts.customer import Claim, Payment, decode
from examples.fraud_alerts.judge import PROVISIONAL, Claimed, Decisions, Judge, Place, Verdict
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
    """All of a topic as a stream, every batch with all there is: so the batches are cuts across all topics."""
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
        F.lit("place").alias("kind"), "customer", "latitude", "longitude", F.unix_millis("time").alias("time")
    )
    return claims.unionByName(payments, allowMissingColumns=True).unionByName(
        places, allowMissingColumns=True
    )


class Confirmation:
    """Judges the batches of `inputs`. The states are read from Kafka when the first batch comes."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._transactions: Transactions | None = None
        self._provisional = Provisional(sources)

    def write(self, batch: DataFrame, commit: Commit) -> None:
        """Judges and commits a batch, unless it was committed before a crash."""
        transactions = self._transactions or self._open()
        if transactions.done(commit):
            return
        rows = batch.toArrow().to_pylist()
        payments = sorted((row for row in rows if row["kind"] == "payment"), key=lambda row: row["offset"])
        for row in payments:
            partition = str(row["partition"])
            self._positions[partition] = max(row["offset"] + 1, self._positions.get(partition, 0))
        decisions = self._judge.batch(
            [Payment(*[row[name] for name in Payment._fields]) for row in payments],
            [Place(*[row[name] for name in Place._fields]) for row in rows if row["kind"] == "place"],
            [
                Claimed(row["customer"], Claim(row["id"], row["rule"], row["time"]))
                for row in rows
                if row["kind"] == "claim"
            ],
        )
        if rows:
            transactions.commit(
                commit,
                results(decisions, round(time.time() * 1000)),
                {name.encode(): self._judge.customers[name].encode() for name in decisions.changed},
                {"newest": self._judge.newest, "positions": self._positions},
            )
        if payments:
            behind = time.time() - max(row["produced"] for row in payments) / 1000
            self._provisional.refresh(self._judge.customers, self._positions, behind)

    def _open(self) -> Transactions:
        transactions = Transactions(self._sources.settings, STATES)
        customers = {name.decode(): decode(state) for name, state in transactions.states.items()}
        transactions.states.clear()
        self._judge = Judge(
            LIMITS, customers, *([list(transactions.facts["newest"])] if transactions.facts else [])
        )
        self._positions: dict[str, int] = dict(transactions.facts.get("positions", {}))
        self._transactions = transactions
        return transactions


def results(decisions: Decisions, now: int) -> Sequence[Record]:
    """The records that tell a batch's decisions: alerts by transaction, accepted payments by customer."""
    alerts = [Record(ALERTS, v.transaction.encode(), alert(v, now)) for v in decisions.verdicts]
    accepted = [
        Record(JUDGED, p.customer.encode(), json.dumps(p._asdict(), separators=(",", ":")).encode())
        for p in sorted(decisions.accepted, key=lambda p: (p.time, p.id))
    ]
    return alerts + accepted


def alert(verdict: Verdict, now: int) -> bytes:
    """A verdict as JSON, with the time of decision (ms)."""
    return json.dumps({**verdict._asdict(), "decided_at": now}, separators=(",", ":")).encode()
