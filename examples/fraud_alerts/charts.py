"""The slow path: what the exact path has decided, kept in Delta tables for charts.

It follows the topics that the exact path commits, so nothing is evaluated twice and nothing slows the alerts down.
A payment is counted when it was accepted and, when its first alert is confirmed, as flagged: both add to the windows
that contain its time, however late they come.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.fraud_alerts.evaluation import CONFIRMED
from examples.fraud_alerts.topics import ALERTS, EVALUATED
from examples.kit.job import Sources
from examples.kit.mergeable import mergeable
from examples.kit.sinks import Upsert, same_windows
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Change, Column, Table

WINDOW, SLIDE = "10 minutes", "1 minute"
_KEY = ("merchant", "country", "window_start")
_SUMS = ("payments", "amount", "flagged")
_add = mergeable(_KEY, _SUMS, {})


def _combine(existing: pa.Table, incoming: pa.Table) -> Change:
    rows = _add(existing, incoming).rows
    share = pc.divide(pc.cast(rows["flagged"], pa.float64()), pc.cast(rows["payments"], pa.float64()))
    # A flag may be committed one batch before its payment.
    share = pc.if_else(pc.equal(rows["payments"], 0), None, share)
    return Change(rows.append_column("flagged_share", share))


WINDOWS = Table(
    name="fraud_alerts.windows",
    about="One row per merchant, country and sliding 10-minute window, every minute.",
    kind="upsert",
    key=_KEY,
    time="window_start",
    reads="topics payments-judged and alerts",
    columns=(
        Column("merchant", "string", "Merchant."),
        Column("country", "string", "Country of the terminal."),
        Column("window_start", "timestamp", "Start of the window, on the minute."),
        Column("window_end", "timestamp", "Its exclusive end, 10 minutes later."),
        Column("payments", "long", "Accepted payments, copies not counted."),
        Column("amount", "long", "Their sum in euro cents."),
        Column("flagged", "long", "Those of them with a confirmed alert of a rule."),
        Column("flagged_share", "double", "flagged / payments."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)
CONFIRMED_ALERTS = Table(
    name="fraud_alerts.alerts",
    about="One row per confirmed alert: transaction and rule.",
    kind="append",
    key=("transaction", "rule"),
    time="time",
    reads="topic alerts",
    columns=(
        Column("transaction", "string", "Id of the transaction."),
        Column("rule", "string", "The rule, or the name of the pattern, that it broke."),
        Column("customer", "string", "Customer."),
        Column("reason", "string", "What was wrong, for people."),
        Column("merchant", "string", "Merchant; empty for a pattern."),
        Column("country", "string", "Country of the terminal; empty for a pattern."),
        Column("amount", "long", "Euro cents; 0 for a pattern."),
        Column("time", "timestamp", "Event time of the transaction."),
        Column("updated_at", "timestamp", "When the alert was confirmed."),
    ),
)

_PAYMENT = "merchant string, country string, amount long, time long"
_ALERT = (
    "transaction string, rule string, status string, customer string, reason string, merchant string,"
    " country string, amount long, time long, decided_at long, first boolean"
)


def evaluated(sources: Sources) -> DataFrame:
    """Accepted payments (without `transaction`) and confirmed alerts as one stream."""
    value = F.col("value").cast("string")
    payments = sources.records(EVALUATED).select(F.from_json(value, _PAYMENT).alias("r")).select("r.*")
    alerts = sources.records(ALERTS).select(F.from_json(value, _ALERT).alias("r")).select("r.*")
    confirmed = alerts.where(F.col("status") == CONFIRMED)
    return (
        payments.unionByName(confirmed, allowMissingColumns=True)
        .withColumn("time", F.timestamp_millis("time"))
        .withColumn("updated_at", F.timestamp_millis("decided_at"))
    )


def windows(rows: DataFrame) -> DataFrame:
    """Rows of `evaluated` to partial rows of WINDOWS, which add up."""
    is_payment = F.col("transaction").isNull()
    return (
        rows.where(is_payment | F.col("first"))
        .groupBy(F.window("time", WINDOW, SLIDE).alias("w"), "merchant", "country")
        .agg(
            F.count_if(is_payment).alias("payments"),
            F.sum(F.when(is_payment, F.col("amount")).otherwise(0)).alias("amount"),
            F.count_if(~is_payment).alias("flagged"),
        )
        .select(
            "merchant", "country", F.col("w.start").alias("window_start"), F.col("w.end").alias("window_end"),
            *_SUMS,
        )
    )  # fmt: skip


def write(store: Store, batch: DataFrame, commit: Commit) -> None:
    """Commits a batch of `evaluated` to both tables."""
    Upsert(WINDOWS, windows, _combine, same_windows).write(store, batch, commit)
    alerts = batch.where(F.col("transaction").isNotNull()).select(*CONFIRMED_ALERTS.column_names).toArrow()
    if alerts.num_rows:
        store.append_arrow(CONFIRMED_ALERTS, alerts, commit)
