"""The job: failed logins by pattern, scans and surges by window, all alerts to a topic and to tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.intrusion.requests import LINES, from_topic
from examples.intrusion.rules import PATTERNS, WINDOW_SECONDS, Activity, Alert, Limits, affected, alerts
from examples.kit.changes import FollowedTable, changes
from examples.kit.job import Job, Sources
from examples.kit.mergeable import mergeable, unique_count, unique_sketch
from examples.kit.pattern_stream import detect
from examples.kit.sinks import Upsert
from examples.kit.windows import tumbling_start
from tidemark.contract.store import Commit, Store, Where
from tidemark.contract.table import Change, Column, Table
from tidemark.stream.query import Query

ALERTS_TOPIC = "intrusion-alerts"

# How far a line may lag the newest for the patterns, in event time.
LATENESS = timedelta(minutes=15)

_WRITTEN = Column("updated_at", "timestamp", "When the row was last written.")

ACTIVITY = Table(
    name="intrusion.activity",
    about="What each address did in windows of five minutes.",
    kind="upsert",
    key=("client_ip", "window_start"),
    columns=(
        Column("client_ip", "string", "The address."),
        Column("window_start", "timestamp", "Start of the window."),
        Column("requests", "long", "Its requests."),
        Column("not_found", "long", "Distinct paths that it was answered 404 for."),
        Column("not_found_sketch", "binary", "Theta sketch of those paths."),
        _WRITTEN,
    ),
    time="window_start",
    reads="access-log",
)

TRAFFIC_ALERTS = FollowedTable(
    name="intrusion.traffic_alerts",
    about="Scans and surges; late lines may revise or withdraw one.",
    kind="upsert",
    key=("rule", "client_ip", "started_at"),
    columns=(
        Column("rule", "string", "scan or surge."),
        Column("client_ip", "string", "The address."),
        Column("started_at", "timestamp", "Start of the window."),
        Column("value", "long", "Distinct paths not found, or requests."),
        Column("usual", "double", "Requests of the address in a usual window; 0 for a scan."),
        _WRITTEN,
    ),
    time="started_at",
    reads="intrusion.activity",
)

LOGIN_ALERTS = FollowedTable(
    name="intrusion.login_alerts",
    about="Sequences of logins; final, since they come when no earlier line can follow.",
    kind="append",
    key=("rule", "client_ip", "started_at", "matched_at"),
    columns=(
        Column("rule", "string", "Name of the pattern."),
        Column("client_ip", "string", "The address."),
        Column("started_at", "timestamp", "The first login of the sequence."),
        Column("matched_at", "timestamp", "The last one."),
        Column("logins", "strings", "Where each line is, partition/offset, in order."),
        _WRITTEN,
    ),
    time="matched_at",
    reads="access-log",
)


def job(
    source: Callable[[Sources], DataFrame] = from_topic,
    alerts_topic: str = ALERTS_TOPIC,
    limits: Limits = Limits(),  # noqa: B008 - a frozen value
    lateness: timedelta = LATENESS,
) -> Job:
    """The job over requests as `examples.intrusion.requests` makes them, its alerts to a topic."""

    def queries(sources: Sources) -> Sequence[Query]:
        store, requests = sources.store, source(sources)

        def write_logins(batch: DataFrame, commit: Commit) -> None:
            rows = batch.toArrow()
            if rows.num_rows:
                store.append_arrow(LOGIN_ALERTS, _stamped(rows), commit)

        def write_traffic(batch: DataFrame, commit: Commit) -> None:
            incoming = per_window(batch).toArrow()
            _COUNT.commit(store, incoming, commit)
            # From the current windows, which a repeated batch finds already written.
            update_alerts(store, incoming, limits, commit)

        return [
            Query("logins", lambda: logins(requests, lateness), write_logins),
            Query("traffic", lambda: requests, write_traffic, commits=(ACTIVITY, TRAFFIC_ALERTS)),
            Query(
                "alerts",
                partial(to_topic, sources, alerts_topic),
                reads=(TRAFFIC_ALERTS, LOGIN_ALERTS),
            ),
        ]

    # With the pipeline's table as the source, the pipeline handles invalid lines.
    inputs = (LINES,) if source is from_topic else ()
    return Job("intrusion", 1, inputs, queries, (ACTIVITY, TRAFFIC_ALERTS, LOGIN_ALERTS), (alerts_topic,))


def logins(requests: DataFrame, lateness: timedelta) -> DataFrame:
    """The patterns' matches: `rule`, `client_ip`, `started_at`, `matched_at`, `logins`."""
    delay = f"{lateness.total_seconds():g} seconds"
    matches = detect(requests, PATTERNS, key="client_ip", time="event_time", lateness=delay)
    return matches.select(
        F.col("pattern").alias("rule"),
        F.col("key").alias("client_ip"),
        "started_at",
        "matched_at",
        F.col("ids").alias("logins"),
    )


def per_window(requests: DataFrame) -> DataFrame:
    """The rows that a batch adds to ACTIVITY."""
    missing = F.when(F.col("status") == 404, F.col("path"))
    return (
        requests.groupBy(
            "client_ip", tumbling_start(F.col("event_time"), WINDOW_SECONDS).alias("window_start")
        )
        .agg(F.count("*").alias("requests"), unique_sketch(missing).alias("not_found_sketch"))
        .withColumn("not_found", unique_count(F.col("not_found_sketch")))
    )


def update_alerts(store: Store, changed: pa.Table, limits: Limits, commit: Commit) -> None:
    """Checks again the windows that depend on changed rows of ACTIVITY, and writes the alerts that differ."""
    if store.committed(TRAFFIC_ALERTS, commit.writer) >= commit.number:
        return
    wanted: dict[str, list[int]] = defaultdict(list)
    for row in changed.select(["client_ip", "window_start"]).to_pylist():
        wanted[row["client_ip"]].append(_second(row["window_start"]))
    windows = _activity(store, changed, limits)
    affected_starts = {address: affected(starts, limits) for address, starts in wanted.items()}
    after = {
        (alert.rule, address, alert.start): alert
        for address, starts in affected_starts.items()
        for alert in alerts(address, windows[address], starts, limits)
    }
    known = store.read(TRAFFIC_ALERTS, _near(changed, "started_at", limits)).to_pylist() if wanted else []
    there = [
        Alert(r["rule"], r["client_ip"], _second(r["started_at"]), r["value"], r["usual"]) for r in known
    ]
    before = {
        (alert.rule, alert.client_ip, alert.start): alert
        for alert in there
        if alert.start in affected_starts.get(alert.client_ip, ())
    }
    written = [alert for key, alert in after.items() if before.get(key) != alert]
    withdrawn = [alert for key, alert in before.items() if key not in after]
    store.upsert(TRAFFIC_ALERTS, Change(_alert_rows(written), _alert_rows(withdrawn)), commit)


def to_topic(sources: Sources, topic: str) -> DataFrame:
    """The changes of both tables of alerts as records for the topic.

    Key: rule, address and start. Value: JSON with `state` (raised or withdrawn) and `version`; of several
    records with one key that with the highest version holds, however often and in whichever order they come.
    """
    traffic, final = changes(sources, TRAFFIC_ALERTS), changes(sources, LOGIN_ALERTS)
    both = traffic.select("rule", "client_ip", "started_at", *_CHANGE, "value", "usual").unionByName(
        final.select("rule", "client_ip", "started_at", *_CHANGE, "matched_at"), allowMissingColumns=True
    )
    start = F.unix_timestamp("started_at").cast("string")
    state = F.when(F.col("_change_type") == "delete", "withdrawn").otherwise("raised")
    fields = ("rule", "client_ip", "started_at", "matched_at", "value", "usual")
    value = F.to_json(F.struct(*fields, state.alias("state"), F.col("_commit_version").alias("version")))
    return both.where(F.col("_change_type") != "update_preimage").select(
        F.lit(topic).alias("topic"),
        F.concat_ws("/", "rule", "client_ip", start).cast("binary").alias("key"),
        value.cast("binary").alias("value"),
    )


_CHANGE = ("_change_type", "_commit_version")


def _near(changed: pa.Table, column: str, limits: Limits) -> Where:
    """Rows of the changed addresses in all windows that affect the changed ones."""
    if changed.num_rows == 0:
        return ()
    reach = timedelta(seconds=limits.history * WINDOW_SECONDS)
    first, last = pc.min_max(changed["window_start"]).values()
    addresses = pc.unique(changed["client_ip"]).to_pylist()
    low, high = first.as_py() - reach, last.as_py() + reach
    # A window that is checked again has its own history.
    low -= reach
    return [[(column, ">=", low), (column, "<=", high), ("client_ip", "in", addresses)]]


def _same_windows(_: Table, incoming: pa.Table) -> Where:
    return _near(incoming, "window_start", Limits(history=0))


_COUNT = Upsert(
    ACTIVITY,
    per_window,
    mergeable(ACTIVITY.key, ["requests"], {"not_found": "not_found_sketch"}),
    _same_windows,
)


def _activity(store: Store, changed: pa.Table, limits: Limits) -> dict[str, dict[int, Activity]]:
    activity: dict[str, dict[int, Activity]] = defaultdict(dict)
    where = _near(changed, "window_start", limits)
    if where:
        names = ["client_ip", "window_start", "requests", "not_found"]
        for row in store.read(ACTIVITY, where, names).to_pylist():
            activity[row["client_ip"]][_second(row["window_start"])] = Activity(
                row["requests"], row["not_found"]
            )
    return activity


def _alert_rows(alerts: Iterable[Alert]) -> pa.Table:
    now = datetime.now(UTC)
    rows = [
        {**a._asdict(), "started_at": datetime.fromtimestamp(a.start, UTC), "updated_at": now} for a in alerts
    ]
    return pa.Table.from_pylist(rows, TRAFFIC_ALERTS.arrow_schema)


def _stamped(rows: pa.Table) -> pa.Table:
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC"))
    return rows.append_column("updated_at", pa.repeat(now, rows.num_rows))


def _second(time: datetime) -> int:
    return int(time.timestamp())
