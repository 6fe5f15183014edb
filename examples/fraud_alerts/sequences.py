"""A sequence of payments as a pattern: a card is tested with a small payment, then emptied."""

from __future__ import annotations

import json
import time
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.fraud_alerts.evaluation import CONFIRMED
from examples.fraud_alerts.topics import ALERTS, EVALUATED, SEQUENCE_STATES
from examples.kit.job import Sources
from examples.kit.pattern_stream import detect
from examples.kit.patterns import pattern_of
from examples.kit.transactions import Record, Transactions
from tidemark.contract.store import Commit

CARD_TESTING = pattern_of(
    {
        "name": "card testing",
        "within_seconds": 300,
        "steps": [
            {"name": "a small payment", "where": [["amount", "<", 200]]},
            {"name": "three large ones", "where": [["amount", ">=", 30_000]], "times": 3},
        ],
    }
)


def matches(sources: Sources) -> DataFrame:
    """Sequences among the evaluated payments, in which there are no copies."""
    value = F.from_json(F.col("value").cast("string"), "id string, customer string, amount long, time long")
    payments = sources.records(EVALUATED).select(value.alias("p")).select("p.*")
    timed = payments.withColumn("time", F.timestamp_millis("time"))
    # The topic is in order of time.
    return detect(timed, [CARD_TESTING], key="customer", lateness="0 seconds")


class SequenceAlerts:
    """Writes matches as confirmed alerts of the payment that completed them, exactly once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._transactions: Transactions | None = None

    def write(self, batch: DataFrame, commit: Commit) -> None:
        matches = batch.toArrow().to_pylist()
        self._transactions = self._transactions or Transactions(self._sources.settings.kafka, SEQUENCE_STATES)
        if matches and not self._transactions.done(commit):
            now = round(time.time() * 1000)
            self._transactions.commit(commit, [_alert(match, now) for match in matches])


def _alert(match: dict[str, Any], now: int) -> Record:
    ids: list[str] = match["ids"]
    alert = {
        "transaction": ids[-1],
        "customer": match["key"],
        "rule": match["pattern"],
        "status": CONFIRMED,
        "reason": "payments " + ", ".join(ids),
        "produced": 0,
        "first": False,
        "merchant": "",
        "country": "",
        "amount": 0,
        "time": round(match["matched_at"].timestamp() * 1000),
        "decided_at": now,
    }
    return Record(ALERTS, ids[-1].encode(), json.dumps(alert, separators=(",", ":")).encode())
