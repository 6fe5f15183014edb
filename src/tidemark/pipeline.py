"""The composition root: wires the layers' tables into flows. The only module that imports the layers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze import access_log
from gold import pages, traffic, visitors_by_country
from silver import rejected, requests, sessions
from tidemark import kafka
from tidemark.catalog.rebuild import CatalogRebuild
from tidemark.counts import WindowedCounts
from tidemark.cut import Chain
from tidemark.enrich.columns import Knowledge
from tidemark.enrich.visitor import visitor_key
from tidemark.flow.batch_size import BatchSize
from tidemark.flow.files import from_files
from tidemark.flow.fit import require_visitor_key
from tidemark.flow.flow import Flow, Plan
from tidemark.flow.lag import HistoryLag, TopicLag, table_lag, table_rows, topic_rows
from tidemark.flow.reread import reread
from tidemark.flow.sinks import Append, Sink, Upsert, same_windows, sessions_near
from tidemark.forget import Places
from tidemark.lakehouse import Lakehouse
from tidemark.maintain import Streams
from tidemark.quality.tables import ACCOUNTS, SITES
from tidemark.quality.tables import TABLES as QUALITY_TABLES
from tidemark.rebuild import Derivation, Rebuild, Say
from tidemark.sessions import intervals, merge
from tidemark.settings import Settings
from tidemark.store.base import Store
from tidemark.store.spark import SparkStore
from tidemark.table import Table

LAYER_TABLES: tuple[Table, ...] = (
    access_log.TABLE, requests.TABLE, rejected.TABLE, sessions.TABLE,
    visitors_by_country.TABLE, traffic.TABLE, pages.TABLE,
)  # fmt: skip
TABLES: tuple[Table, ...] = (*LAYER_TABLES, *QUALITY_TABLES)

# Goes up when a checkpoint of the query before no longer fits.
REQUESTS_VERSION = 1
ACTIVITY_VERSION = 1

# What the activity flow needs of silver.requests.
_ACTIVITY_COLUMNS = (
    "site", "event_time", "visitor_id", "country", "path", "status", "bytes", "bot", "pageview",
    "browser", "os", "device", "channel", "referrer_host", "ingested_at",
)  # fmt: skip


def flows(settings: Settings, house: Lakehouse, store: Store, *, renew_key: bool = False) -> tuple[Flow, ...]:
    """Every flow of the pipeline, in the order in which data passes through them. `renew_key` as in `home_key`."""
    key = home_key(settings, house, renew=renew_key)
    return requests_flow(settings, key), activity_flow(settings, house, store)


def home_key(settings: Settings, house: Lakehouse, *, renew: bool = False) -> bytes:
    """The visitor key, see `tidemark.flow.fit.require_visitor_key`."""
    return require_visitor_key(settings, house, TABLES, renew=renew)


def warm_up(settings: Settings) -> None:
    """Loads what lines are enriched with, which else the first batch waits for."""
    judge = requests.judging(Knowledge(visitor_key(settings), settings.geo_database))
    line = {name: pa.array([], access_log.TABLE.arrow_schema.field(name).type) for name in judge.inputs}
    judge.make(line)


def requests_flow(settings: Settings, key: bytes) -> Flow:
    """Kafka to bronze.access_log, silver.requests, silver.rejected and gold.visitors_by_country; `key` is the
    visitor key."""
    knowledge = Knowledge(key, settings.geo_database)
    size = BatchSize(settings)
    sinks: tuple[Sink, ...] = (
        _windowed(visitors_by_country.TABLE, visitors_by_country.COUNTS, where="accepted"),
        Append(access_log.TABLE),
        Append(requests.TABLE, where="accepted"),
        Append(rejected.TABLE, where="accepted", wanted=False),
    )
    return Flow(
        name="requests",
        version=REQUESTS_VERSION,
        source=partial(_kafka_source, settings, size),
        size=size,
        prepare=access_log.access_log,
        judge=requests.judging(knowledge),
        plan=lambda judged: Plan(sinks),
        lag=TopicLag(settings),
        rows=partial(topic_rows, settings.topic),
        lines_and_rejected=(access_log.TABLE, rejected.TABLE),
        reread=partial(reread, settings),
    )


def activity_flow(settings: Settings, house: Lakehouse, store: Store) -> Flow:
    """silver.requests to silver.sessions, gold.traffic and gold.pages."""

    def plan(accepted: DataFrame | pa.Table) -> Plan:
        clocks = _site_clocks(accepted)
        newest = {row["site"]: row["newest_event_time"] for row in clocks}
        # The sites of the batch are the only ones whose sessions it can close.
        known = store.read(SITES, [[("site", "in", list(newest))]], ["site", "newest_event_time"])
        for row in known.to_pylist():
            if row["newest_event_time"]:
                newest[row["site"]] = max(newest[row["site"]], row["newest_event_time"])
        sinks: tuple[Sink, ...] = (
            _windowed(traffic.TABLE, traffic.COUNTS),
            _windowed(pages.TABLE, pages.COUNTS),
            _sessions_sink(settings.session_gap_seconds, newest),
        )
        facts = {
            "rows": sum(row["rows"] for row in clocks),
            "newest_event_time": max((row["newest_event_time"] for row in clocks), default=None),
            "newest_kafka_timestamp": max((row["newest_ingested_at"] for row in clocks), default=None),
        }
        return Plan(sinks, facts)

    return Flow(
        name="activity",
        version=ACTIVITY_VERSION,
        source=partial(_table_source, house, requests.TABLE),
        prepare=lambda accepted: accepted.select(*_ACTIVITY_COLUMNS),
        plan=plan,
        lag=_activity_lag(house, store),
        rows=partial(table_rows, Path(house.path(requests.TABLE))),
        fetch=from_files(requests.TABLE, _ACTIVITY_COLUMNS),
        interval_seconds=settings.derive_interval_seconds,
    )


def _activity_lag(house: Lakehouse, store: Store) -> Callable[[Path], int | None]:
    if isinstance(store, SparkStore) and not house.on_this_machine:
        return HistoryLag(partial(store.rows_since, requests.TABLE))
    return partial(table_lag, Path(house.path(requests.TABLE)) / "_delta_log")


def _windowed(table: Table, counts: WindowedCounts, where: str = "") -> Upsert:
    return Upsert(table, counts.by_spark, counts.combine, same_windows, counts.here, where)


def _sessions_sink(gap_seconds: int, newest: dict[str, datetime]) -> Upsert:
    def combine(existing: pa.Table, incoming: pa.Table):  # type: ignore[no-untyped-def]
        return merge(existing, incoming, gap_seconds=gap_seconds, newest=newest, now=datetime.now(UTC))

    return Upsert(
        sessions.TABLE,
        lambda accepted: sessions.sessions(accepted, gap_seconds),
        combine,
        lambda _, incoming: sessions_near(incoming, gap_seconds, newest),
        rows_here=lambda accepted: intervals(accepted.filter(accepted["pageview"])),
    )


def _site_clocks(accepted: DataFrame | pa.Table) -> list[dict[str, Any]]:
    if isinstance(accepted, pa.Table):
        found = accepted.group_by("site").aggregate(
            [("site", "count"), ("event_time", "max"), ("ingested_at", "max")]
        )
        names = ["site", "rows", "newest_event_time", "newest_ingested_at"]
        return found.rename_columns(names).to_pylist()  # type: ignore[no-any-return]
    clocks = accepted.groupBy("site").agg(
        F.count("*").alias("rows"),
        F.max("event_time").alias("newest_event_time"),
        F.max("ingested_at").alias("newest_ingested_at"),
    )
    rows: list[dict[str, Any]] = clocks.toArrow().to_pylist()
    return rows


def _kafka_source(settings: Settings, size: BatchSize, spark: SparkSession) -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .options(**kafka.spark_options(settings))
        .option("subscribe", settings.topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("failOnDataLoss", str(not settings.allow_data_loss).lower())
        .option("maxOffsetsPerTrigger", size.lines)
        .load()
    )


def _table_source(house: Lakehouse, table: Table, spark: SparkSession) -> DataFrame:
    reader = spark.readStream.format("delta").option("skipChangeCommits", "true")
    # About as many rows as a batch of lines has.
    reader = reader.option("maxBytesPerTrigger", "2m").option("maxFilesPerTrigger", "200")
    return reader.table(house.sql_name(table)) if house.in_catalog else reader.load(house.path(table))


def streams(house: Lakehouse) -> Streams:
    """Which flows read which table, by their checkpoints."""
    return {requests.TABLE.name: [Path(house.checkpoint("activity", ACTIVITY_VERSION))]}


def rebuilding(
    spark: SparkSession, settings: Settings, house: Lakehouse, say: Say = lambda what, done, total: None
) -> Rebuild:
    """How every table is made from the ones before it, for a rebuild."""
    judging, derived = _judging(settings), _derived(settings)
    return Rebuild(
        spark, settings, house, TABLES, chain(house), judging, derived, ACCOUNTS, SITES, say,
    )  # fmt: skip


def rebuilding_catalog(spark: SparkSession, settings: Settings, house: Lakehouse, say: Say) -> CatalogRebuild:
    """The same for the tables of a catalog."""
    judging, derived = _judging(settings), _derived(settings)
    return CatalogRebuild(
        spark, house, judging, derived, ACCOUNTS, SITES, settings.duplicate_days, say,
    )  # fmt: skip


def chain(house: Lakehouse) -> Chain:
    """How the flows hang together."""
    return Chain(
        first=Path(house.checkpoint("requests", REQUESTS_VERSION)),
        second=Path(house.checkpoint("activity", ACTIVITY_VERSION)),
        between=requests.TABLE,
        first_tables=(visitors_by_country.TABLE, SITES),
        second_tables=(traffic.TABLE, pages.TABLE, sessions.TABLE),
        appends=(access_log.TABLE, requests.TABLE, rejected.TABLE),
        accounts=ACCOUNTS,
    )


def _judging(settings: Settings) -> Derivation:
    """Bronze lines judged anew. They keep the time at which they were first read."""
    judging = requests.judging(Knowledge(visitor_key(settings), settings.geo_database))

    def judged(lines: DataFrame) -> DataFrame:
        again = judging.to_frame(lines.withColumnRenamed("ingested_at", "_first_read"))
        return again.drop("ingested_at").withColumnRenamed("_first_read", "ingested_at")

    return Derivation(
        tables=(requests.TABLE, rejected.TABLE),
        source=access_log.TABLE,
        time="ingested_at",
        prepare=judged,
        sinks=lambda newest: (
            Append(requests.TABLE, where="accepted"),
            Append(rejected.TABLE, where="accepted", wanted=False),
        ),
        second=False,
    )


def _derived(settings: Settings) -> tuple[Derivation, ...]:
    by_country = _windowed(visitors_by_country.TABLE, visitors_by_country.COUNTS)
    by_minute = _windowed(traffic.TABLE, traffic.COUNTS)
    by_page = _windowed(pages.TABLE, pages.COUNTS)
    from_requests = partial(Derivation, source=requests.TABLE, time=requests.TABLE.time)
    return (
        from_requests(
            tables=(visitors_by_country.TABLE,),
            prepare=lambda rows: rows,
            sinks=lambda newest: [by_country],
            second=False,
            window_seconds=visitors_by_country.WINDOW_SECONDS,
        ),
        from_requests(
            tables=(traffic.TABLE,),
            prepare=lambda rows: rows.select(*_ACTIVITY_COLUMNS),
            sinks=lambda newest: [by_minute],
            second=True,
            window_seconds=traffic.WINDOW_SECONDS,
        ),
        from_requests(
            tables=(pages.TABLE,),
            prepare=lambda rows: rows.select(*_ACTIVITY_COLUMNS),
            sinks=lambda newest: [by_page],
            second=True,
            window_seconds=pages.WINDOW_SECONDS,
        ),
        from_requests(
            tables=(sessions.TABLE,),
            prepare=lambda rows: rows.select(*_ACTIVITY_COLUMNS),
            sinks=lambda newest: [_sessions_sink(settings.session_gap_seconds, dict(newest))],
            second=True,
            whole=True,
        ),
    )


def places() -> Places:
    """The tables in which a visitor leaves traces, for forgetting."""
    return Places(access_log.TABLE, requests.TABLE, rejected.TABLE, sessions.TABLE, ACCOUNTS, SITES)


def rebuildable() -> list[str]:
    """Names of the tables that are made from others."""
    return [table.name for table in LAYER_TABLES if table is not access_log.TABLE]
