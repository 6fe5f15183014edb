"""Recounts, from the sent records alone and by DuckDB, every alert and every window."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from examples.fraud_alerts.charts import CONFIRMED_ALERTS, WINDOWS
from examples.fraud_alerts.evaluation import CONFIRMED, PROVISIONAL, WITHDRAWN
from examples.fraud_alerts.generator import CLOSER
from examples.fraud_alerts.latency import kind, table
from examples.fraud_alerts.limits import LIMITS
from examples.fraud_alerts.money import RATES
from examples.fraud_alerts.sequences import CARD_TESTING
from examples.fraud_alerts.topics import ALERTS, TRANSACTIONS
from examples.kit.load import Event
from examples.kit.results import Results
from examples.kit.results import differences as compare

Alert = tuple[str, str]
# merchant, country, start of the window in epoch ms -> payments, euro cents, flagged
Windows = dict[tuple[str, str, int], tuple[int, int, int]]

_DISTANCE = """
acos(least(1.0, sin(radians(p.latitude)) * sin(radians(r.latitude)) + cos(radians(p.latitude))
    * cos(radians(r.latitude)) * cos(radians(r.longitude - p.longitude)))) * 6371.0
"""


@dataclass(frozen=True)
class Truth:
    """The expected results. `alerts` are pairs of transaction and rule."""

    alerts: set[Alert]
    windows: Windows
    payments: int
    by_rule: Counter[str] = field(default_factory=Counter)


def truth(events: Iterable[Event]) -> Truth:
    """Of the events in the order of sending."""
    payments, reports = _tables(events)
    db = duckdb.connect()
    db.register("sent", payments)
    db.register("reports", reports)
    db.execute(
        "CREATE TABLE payments AS SELECT * FROM sent QUALIFY row_number() OVER (PARTITION BY id ORDER BY seq) = 1"
    )
    flagged = {("amount", id) for (id,) in db.execute(f"""
        SELECT id FROM (
            SELECT id, euro, max(euro) OVER before AS highest, count(*) OVER before AS history FROM payments
            WINDOW before AS (PARTITION BY customer ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
        WHERE history >= {LIMITS.history} AND euro > highest
    """).fetchall()}  # fmt: skip
    flagged |= {("together", id) for (id,) in db.execute(f"""
        SELECT id FROM (SELECT id, time - lag(time) OVER (PARTITION BY customer ORDER BY time, id) AS gap FROM payments)
        WHERE gap <= {LIMITS.together_ms}
    """).fetchall()}  # fmt: skip
    flagged |= {("location", id) for (id,) in db.execute(f"""
        SELECT p.id FROM payments p ASOF JOIN reports r ON p.customer = r.customer AND p.time >= r.time
        WHERE {_DISTANCE} > {LIMITS.distance_km}
    """).fetchall()}  # fmt: skip
    db.register("flagged", pa.table({"id": pa.array(sorted({id for _, id in flagged}), pa.string())}))
    windows = {tuple(row[:3]): tuple(row[3:]) for row in db.execute("""
        SELECT merchant, country, time // 60000 * 60000 - back * 60000 AS start, count(*), sum(euro)::BIGINT,
            count(*) FILTER (id IN (SELECT id FROM flagged))
        FROM payments CROSS JOIN range(10) AS t(back) GROUP BY ALL
    """).fetchall()}  # fmt: skip
    flagged |= {
        ("card testing", id)
        for id in _tested(db.execute("SELECT customer, time, id, euro FROM payments").fetchall())
    }
    (count,) = db.execute("SELECT count(*) FROM payments").fetchone() or (0,)
    return Truth({(id, rule) for rule, id in flagged}, windows, count, Counter(rule for rule, _ in flagged))


def _tables(events: Iterable[Event]) -> tuple[pa.Table, pa.Table]:
    payments, reports = [], []
    for number, event in enumerate(events):
        if event.reason:
            continue
        fields = json.loads(event.value)
        if fields["customer"].startswith(CLOSER):  # never passed by the watermark
            continue
        fields["seq"] = number
        if event.topic == TRANSACTIONS.topic:
            fields["euro"] = fields["amount"] * RATES[fields["currency"]] // 1_000_000
            payments.append(fields)
        else:
            reports.append(fields)
    return _with_millis(payments), _with_millis(reports)


def _with_millis(rows: list[dict[str, object]]) -> pa.Table:
    table = pa.Table.from_pylist(rows)
    times = table["time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return table.set_column(table.column_names.index("time"), "time", times)


def _tested(payments: list[tuple[str, int, str, int]]) -> set[str]:
    """The third large payment after a small one within five minutes, of each card that is tested.

    Payments of one customer that are part of one such sequence are not part of another.
    """
    tested, begun = set(), dict[str, list[list[int]]]()
    for customer, time, id, euro in sorted(payments):
        runs = [run for run in begun.get(customer, []) if time <= run[0] + 300_000]
        if euro >= 30_000:
            runs = [[started, large + 1] for started, large in runs]
        if euro < 200:
            runs.append([time, 0])
        if any(large == 3 for _, large in runs):
            tested.add(id)
            runs = []
        begun[customer] = runs
    return tested


@dataclass(frozen=True)
class Score:
    """The confirmed alerts, compared with the truth. Both shares are 1.0 if nothing is wrong."""

    precision: float
    recall: float


def score(wanted: set[Alert], confirmed: set[Alert]) -> Score:
    right = len(wanted & confirmed)
    return Score(right / len(confirmed) if confirmed else 1.0, right / len(wanted) if wanted else 1.0)


def differences(wanted: Truth, results: Results) -> list[str]:
    """Everything that is not as the truth says: alerts in the topic and the table, windows, withdrawals."""
    messages = [json.loads(message.value) for message in results.messages(ALERTS)]
    counted = Counter((a["transaction"], a["rule"]) for a in messages if a["status"] == CONFIRMED)
    lines = [f"alert {alert} was confirmed {n} times" for alert, n in counted.items() if n > 1]
    lines += _compare("confirmed alert", wanted.alerts, set(counted))
    withdrawn = Counter((a["transaction"], a["rule"]) for a in messages if a["status"] == WITHDRAWN)
    lines += [f"alert {alert} was withdrawn {n} times" for alert, n in withdrawn.items() if n > 1]
    lines += [f"alert {alert} was confirmed and withdrawn" for alert in {*withdrawn} & {*counted}]
    # Not those on payments too old to be known, nor those that came after the exact path had finished.
    newest = max((a["time"] for a in messages), default=0)
    exact = [a for a in messages if a["status"] != PROVISIONAL and a["rule"] != CARD_TESTING.name]
    finished = max((a["decided_at"] for a in exact), default=0)
    claimed = {
        (a["transaction"], a["rule"])
        for a in messages
        if a["status"] == PROVISIONAL
        and a["time"] >= newest - LIMITS.remember_ms
        and a.get("decided_at", 0) <= finished
    }
    lines += [f"provisional alert {alert} was neither confirmed nor withdrawn"
              for alert in claimed - {*withdrawn} - {*counted}]  # fmt: skip
    table = results.table(CONFIRMED_ALERTS).select(["transaction", "rule"]).to_pylist()
    rows = Counter((row["transaction"], row["rule"]) for row in table)
    lines += _compare("row of alerts", Counter(wanted.alerts), rows)
    windows = {
        (row["merchant"], row["country"], round(row["window_start"].timestamp() * 1000)): (
            row["payments"], row["amount"], row["flagged"],
        )
        for row in results.table(WINDOWS).to_pylist()
    }  # fmt: skip
    return lines + list(compare("window", wanted.windows, windows))


def _compare(what: str, wanted: Iterable[Alert], actual: Counter[Alert] | set[Alert]) -> list[str]:
    return list(compare(what, Counter(wanted), Counter(actual)))


def report(wanted: Truth, results: Results) -> str:
    """Precision and recall of the confirmed alerts, and the latencies: from the payment's record in Kafka to
    the alert's. Alerts that had to wait for the killed job are counted apart."""
    measured: dict[str, list[float]] = {}
    confirmed = set()
    for message in results.messages(ALERTS):
        alert = json.loads(message.value)
        if alert["status"] == CONFIRMED:
            confirmed.add((alert["transaction"], alert["rule"]))
        if alert["produced"]:
            arrived = message.timestamp.timestamp() * 1000
            phase = results.phase(alert["produced"], arrived)
            measured.setdefault(f"{phase}: {kind(alert)}", []).append(arrived - alert["produced"])
    scores = score(wanted.alerts, confirmed)
    rules = ", ".join(f"{rule} {count}" for rule, count in sorted(wanted.by_rule.items()))
    return "\n".join(
        [
            f"{wanted.payments} payments, {len(wanted.alerts)} alerts due ({rules})",
            f"confirmed: precision {scores.precision:.4f}, recall {scores.recall:.4f}",
            *table(measured),
            *(f"the job was down for {up - down:.1f} s" for down, up in results.outages),
        ]
    )
