"""The exact path: evaluates each micro-batch and writes verdicts, payments and states in one
transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from examples.fraud_alerts.customer import Claim, Payment, decode
from examples.fraud_alerts.evaluation import NEVER, PROVISIONAL, Claimed, Decisions, Evaluator, Place, Verdict
from examples.fraud_alerts.limits import LIMITS
from examples.fraud_alerts.money import euro_cents
from examples.fraud_alerts.provisional import BEHIND_SECONDS, Provisional
from examples.fraud_alerts.topics import ALERTS, CLAIMS, DEVICES, EVALUATED, STATES, TRANSACTIONS
from examples.kit.events import Events
from examples.kit.fetched import Validated, fetch, letters, validate
from examples.kit.job import Sources
from examples.kit.positions import Positions
from examples.kit.transactions import Record, Transactions
from tidemark.contract.store import Commit
from tidemark.kafka import client as kafka
from tidemark.stream.accounting import Account, account_facts
from tidemark.stream.query import Facts


def inputs(sources: Sources) -> DataFrame:
    """Payments, reports of phones and alerts as they are in Kafka, by one source: three cost three times as much
    to ask for news."""
    # A task for each partition would take longer to begin than to read its few records.
    return sources.raw(TRANSACTIONS.topic, DEVICES.topic, ALERTS).coalesce(2)


class Confirmation:
    """Evaluates the batches of `inputs`, and gives the fast path, if there is one, its profiles. The states are
    read from Kafka when the first batch comes."""

    def __init__(self, sources: Sources, provisional: Provisional | None = None) -> None:
        self._sources = sources
        self._transactions: Transactions | None = None
        self._provisional = provisional

    def write(self, batch: DataFrame, commit: Commit) -> Facts:
        """Evaluates and commits the part of a batch that was not committed before a crash."""
        transactions = self._transactions or self._open()
        records = self._positions.unseen(pa.concat_tables(fetch(batch)))
        if not records.num_rows:
            return None
        payments, places, claims = (self._validated(records, e) for e in (TRANSACTIONS, DEVICES, CLAIMS))
        if commit.number:
            self._positions.require_all(records, TRANSACTIONS.topic, self._begin)
        self._positions.advance(records)
        newest = {
            f"{kind} {partition}": time
            for kind, rows in (("payment", payments), ("place", places))
            for partition, time in _newest(in_millis(rows.good), "time").items()
        }
        decisions = self._evaluator.batch(
            payments_of(payments.good), places_of(places.good), claims_of(claims.good), newest
        )
        bad = letters(payments.bad, TRANSACTIONS) + letters(places.bad, DEVICES)
        transactions.commit(
            commit,
            [*results(decisions, round(time.time() * 1000)), *bad],
            {name.encode(): self._evaluator.customers[name].encode() for name in decisions.changed},
            {"newest": self._evaluator.newest, "positions": self._positions.as_facts()},
        )
        if payments.good.num_rows and self._provisional:
            behind = time.time() - pc.max(payments.good["timestamp"]).as_py().timestamp()
            if behind > BEHIND_SECONDS and self._has_read_all():
                behind = 0.0  # old, and no newer payment waits
            self._provisional.refresh(
                self._evaluator.customers, self._positions.of(TRANSACTIONS.topic), behind
            )
        return account_facts(Account([rows.counts for rows in (payments, places, claims)]))

    def _has_read_all(self) -> bool:
        positions = self._positions.of(TRANSACTIONS.topic)
        ends = kafka.end_offsets(self._sources.settings.kafka, TRANSACTIONS.topic)
        return all(positions.get(partition, 0) >= end for partition, end in ends.items())

    def _validated(self, records: pa.Table, events: Events) -> Validated:
        return validate(of(records, events), events, self._sources.spark)

    def _open(self) -> Transactions:
        transactions = Transactions(self._sources.settings.kafka, STATES)
        customers = {name.decode(): decode(state) for name, state in transactions.states.items()}
        transactions.states.clear()
        newest = {
            f"{kind} {partition}": NEVER
            for kind, topic in (("payment", TRANSACTIONS.topic), ("place", DEVICES.topic))
            for partition in kafka.end_offsets(self._sources.settings.kafka, topic)
        }
        self._evaluator = Evaluator(LIMITS, newest | dict(transactions.facts.get("newest", {})), customers)
        self._positions = Positions(transactions.facts.get("positions", {}))
        self._begin = kafka.beginning_offsets(self._sources.settings.kafka, TRANSACTIONS.topic)
        self._transactions = transactions
        return transactions


def of(records: pa.Table, events: Events) -> pa.Table:
    """The records of a topic."""
    return records.filter(pc.equal(records["topic"], events.topic))


def _newest(rows: pa.Table, column: str) -> dict[int, int]:
    """The greatest value of each partition."""
    newest = rows.group_by("partition").aggregate([(column, "max")])
    return dict(zip(newest["partition"].to_pylist(), newest[f"{column}_max"].to_pylist(), strict=True))


def in_millis(events: pa.Table) -> pa.Table:
    """The events with times as milliseconds."""
    for place, field in enumerate(events.schema):
        if pa.types.is_timestamp(field.type):
            millis = events.column(place).cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
            events = events.set_column(place, field.name, millis)
    return events


def payments_of(good: pa.Table) -> list[Payment]:
    """Payments in the order of their offsets, amounts in euro cents."""
    return [
        Payment(
            row["id"], row["customer"], euro_cents(row["amount"], row["currency"]), row["merchant"], row["country"],
            row["latitude"], row["longitude"], row["time"], row["timestamp"],
        )
        for row in in_millis(good).sort_by("offset").to_pylist()
    ]  # fmt: skip


def places_of(good: pa.Table) -> list[Place]:
    """Reports of phones."""
    return [Place(*[row[name] for name in Place._fields]) for row in in_millis(good).to_pylist()]


def claims_of(good: pa.Table) -> list[Claimed]:
    """The provisional ones among alerts."""
    claims = good.filter(pc.equal(good["status"], PROVISIONAL)).to_pylist()
    return [Claimed(row["customer"], Claim(row["transaction"], row["rule"], row["time"])) for row in claims]


def results(decisions: Decisions, now: int) -> Sequence[Record]:
    """The records that tell a batch's decisions: alerts by transaction, passed payments by customer."""
    alerts = [Record(ALERTS, v.transaction.encode(), alert(v, now)) for v in decisions.verdicts]
    passed = [
        Record(EVALUATED, p.customer.encode(), json.dumps(p._asdict(), separators=(",", ":")).encode())
        for p in decisions.passed
    ]
    return alerts + passed


def alert(verdict: Verdict, now: int) -> bytes:
    """A verdict as JSON, with the time of decision (ms)."""
    return json.dumps({**verdict._asdict(), "decided_at": now}, separators=(",", ":")).encode()
