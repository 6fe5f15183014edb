"""The composition root: combines the layers' tables into flows. The only module that imports the layers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bronze import access_log
from silver import rejected, requests
from tidemark.contract.aggregation import Aggregation, Mergeable, Newest, Revisable
from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.quality_tables import TABLES as QUALITY_TABLES
from tidemark.contract.registry import tables
from tidemark.contract.store import Store, Where
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.engine.work import ALL, Part, Work
from tidemark.errors import TidemarkError
from tidemark.kafka import client as kafka
from tidemark.machine import heap_mebibytes
from tidemark.operate.catalog_rebuild import CatalogRebuild
from tidemark.operate.derivation import Derivation
from tidemark.operate.forget import Places
from tidemark.operate.moment import Positions
from tidemark.operate.rebuild import Rebuild, Say
from tidemark.operate.snapshot import Chain
from tidemark.operate.upkeep import Streams
from tidemark.parse.columns import Knowledge
from tidemark.parse.custom import reading_of
from tidemark.parse.visitor import visitor_key
from tidemark.settings import Settings
from tidemark.settings.sections import KafkaSettings, MeaningSettings
from tidemark.store import deltalog
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream.accounting import SiteClocks
from tidemark.stream.batch_size import BatchSize
from tidemark.stream.files import TableFiles
from tidemark.stream.flow import Flow
from tidemark.stream.following import Follower
from tidemark.stream.lag import TopicLag, table_lag, table_rows, topic_rows
from tidemark.stream.reread import reread
from tidemark.stream.schema_check import require_visitor_key

LAYER_TABLES = tables()
TABLES: tuple[Table, ...] = (*LAYER_TABLES, *QUALITY_TABLES)

# Increment when earlier checkpoints of the query become incompatible.
REQUESTS_VERSION = 1
ACTIVITY_VERSION = 1

# The part of a batch of validated lines that a table contains.
_LINES = {"all": ALL, "accepted": Part("accepted"), "rejected": Part("accepted", wanted=False)}
_CLOCKS = "clocks"


def flows(settings: Settings, house: Lakehouse, store: Store, *, renew_key: bool = False) -> tuple[Flow, ...]:
    """Every flow of the pipeline, in the order of the data. `renew_key` as in `home_key`."""
    key = home_key(settings, house, renew=renew_key)
    return requests_flow(settings, key), activity_flow(settings, house, store)


def home_key(settings: Settings, house: Lakehouse, *, renew: bool = False) -> bytes:
    """The visitor key, see `tidemark.stream.schema_check.require_visitor_key`."""
    return require_visitor_key(settings, house, TABLES, renew=renew)


def warm_up(settings: Settings) -> None:
    """Loads the enrichment data, so that the first batch need not wait for it. The first batch reports any error."""
    with suppress(TidemarkError, OSError):
        judge = requests.judging(_knowledge(settings, visitor_key(settings)))
        judge.add(_lines(judge).empty_table())


def _lines(judge: Vectorized) -> pa.Schema:
    return pa.schema([access_log.TABLE.arrow_schema.field(name) for name in judge.inputs])


def requests_flow(settings: Settings, key: bytes) -> Flow:
    """The flow from Kafka to the tables with one row per line, and to the tables with `now` that are made of accepted
    lines. `key` is the visitor key."""
    size = BatchSize(settings.batches, settings.spark)
    made = _aggregations(settings.meaning, _derived_tables(now=True))
    judge = requests.judging(_knowledge(settings, key))
    return Flow(
        name="requests",
        version=REQUESTS_VERSION,
        source=partial(_kafka_source, settings.kafka, size),
        size=size,
        prepare=access_log.access_log,
        work=Work(
            judge=judge,
            appends=[(table, _LINES[table.lines]) for table in LAYER_TABLES if table.lines],
            aggregations={table.name: (each, _LINES["accepted"]) for table, each in made},
        ),
        upserts=made,
        clocks=SITES.name,
        lag=TopicLag(settings.kafka),
        rows=partial(topic_rows, settings.kafka.topic),
        accounted=True,
        local_rows=settings.batches.local_rows,
        lines_and_rejected=(access_log.TABLE, rejected.TABLE),
        reread=partial(reread, settings.kafka),
        schema=_lines(judge),
    )


# More of them than lines stay in the driver: executors take every core at once, and fresh lines would wait.
_TIMES_LOCAL_ROWS = 3


def activity_flow(settings: Settings, house: Lakehouse, store: Store) -> Flow:
    """The flow from silver.requests to the other tables that are made of it."""
    made = _aggregations(settings.meaning, _derived_tables(now=False))
    work = _work_on_requests(made)
    columns = tuple(dict.fromkeys(name for each, _ in work.aggregations.values() for name in each.needs))
    return Flow(
        name="activity",
        version=ACTIVITY_VERSION,
        source=partial(_table_source, house, requests.TABLE, heap_mebibytes(settings.spark)),
        prepare=lambda accepted: accepted.select(*columns),
        work=work,
        upserts=made,
        clocks=_CLOCKS,
        lag=partial(table_lag, partial(store.rows_since, requests.TABLE)),
        known=partial(_known_newest, store),
        rows=partial(table_rows, house, requests.TABLE),
        files=TableFiles(requests.TABLE, columns, house.can.files) if house.can.files else None,
        interval_seconds=settings.batches.derive_interval_seconds,
        local_rows=_TIMES_LOCAL_ROWS * settings.batches.local_rows,
        followers=followers(settings.meaning),
    )


def followers(meaning: MeaningSettings) -> tuple[Follower, ...]:
    """The tables made of tables whose rows change."""
    sources = {table.name: table for table in LAYER_TABLES}
    return tuple(
        Follower(table, cast(Revisable, table.made(meaning)), sources[table.reads])
        for table in LAYER_TABLES
        if table.made and table.follows
    )


def rules_version(settings: Settings) -> str:
    """The `rules_version` of lines that are read now."""
    return _knowledge(settings, visitor_key(settings)).version


def _knowledge(settings: Settings, key: bytes) -> Knowledge:
    return Knowledge(key, settings.meaning.geo_database, reading_of(settings))


def _aggregations(meaning: MeaningSettings, tables: Sequence[Table]) -> list[tuple[Table, Aggregation]]:
    return [(table, table.made(meaning)) for table in tables if table.made]


def _work_on_requests(made: Sequence[tuple[Table, Aggregation]]) -> Work:
    aggregations: dict[str, tuple[Mergeable, Part]] = {table.name: (each, ALL) for table, each in made}
    return Work(aggregations={**aggregations, _CLOCKS: (SiteClocks(), ALL)})


def _known_newest(store: Store, sites: Sequence[str]) -> Newest:
    """Newest event times of these sites, from quality.sites."""
    where: Where = [[("site", "in", list(sites))]]
    rows = store.read(SITES, where, ["site", "newest_event_time"]).to_pylist() if sites else []
    return {row["site"]: row["newest_event_time"] for row in rows if row["newest_event_time"]}


def _kafka_source(settings: KafkaSettings, size: BatchSize, spark: SparkSession) -> DataFrame:
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


def _table_source(house: Lakehouse, table: Table, heap: int, spark: SparkSession) -> DataFrame:
    """Batches of whole files of a table; `heap` in MiB is the driver's."""
    reader = spark.readStream.format("delta").option("skipChangeCommits", "true")
    # Up to about two million rows: a larger batch merges fewer rows into the tables for each of its lines. Its partial
    # rows, which may be as many as its lines, pass through the driver's heap.
    most = max(16, heap // 64)
    reader = reader.option("maxBytesPerTrigger", f"{most}m").option("maxFilesPerTrigger", "200")
    if house.can.files and deltalog.is_new(house.log(table)):
        # Otherwise the first batch is the table's state, which takes Spark seconds to compute.
        reader = reader.option("startingVersion", "0")
    found: DataFrame = house.load(reader, table)
    return found


def streams(house: Lakehouse) -> Streams:
    """Checkpoints of the flows that stream a table, by table."""
    return {requests.TABLE.name: [Path(house.checkpoint("activity", ACTIVITY_VERSION))]}


def positions(house: Lakehouse) -> Positions:
    """How far both flows are."""
    found = chain(house)
    return Positions(found.first, found.second, found.between)


def rebuilding(
    spark: SparkSession,
    settings: Settings,
    house: Lakehouse,
    say: Say = lambda what, done, total: None,
    after_version: int = -1,
) -> Rebuild:
    """A rebuild, which makes every table from the previous ones; see there."""
    judging, derived = _judging(settings), _derived(settings.meaning)
    return Rebuild(
        spark, settings, house, TABLES, chain(house), judging, derived, ACCOUNTS, SITES,
        followers(settings.meaning), rules_version(settings), after_version, say,
    )  # fmt: skip


def rebuilding_catalog(spark: SparkSession, settings: Settings, house: Lakehouse, say: Say) -> CatalogRebuild:
    """The same for the tables of a catalog."""
    judging, derived = _judging(settings), _derived(settings.meaning)
    return CatalogRebuild(
        spark, house, judging, derived, ACCOUNTS, SITES, followers(settings.meaning),
        settings.meaning.duplicate_days, say,
    )  # fmt: skip


def chain(house: Lakehouse) -> Chain:
    """The connection of the two flows."""
    return Chain(
        first=Path(house.checkpoint("requests", REQUESTS_VERSION)),
        second=Path(house.checkpoint("activity", ACTIVITY_VERSION)),
        between=requests.TABLE,
        first_tables=_derived_tables(now=True),
        last=SITES,
        second_tables=_derived_tables(now=False),
        followers=tuple(table for table in LAYER_TABLES if table.follows),
        appends=tuple(table for table in LAYER_TABLES if table.lines),
        accounts=ACCOUNTS,
    )


def _derived_tables(*, now: bool) -> tuple[Table, ...]:
    """The tables that are made of silver.requests: by the flow `requests` (`now`), or by the flow `activity`."""
    return tuple(table for table in LAYER_TABLES if table.made and not table.follows and table.now is now)


def _judging(settings: Settings) -> Derivation:
    """Validates bronze lines again. They keep the time at which they were first read."""
    return Derivation(
        tables=(requests.TABLE, rejected.TABLE),
        source=access_log.TABLE,
        time="ingested_at",
        work=Work(
            judge=requests.judging(_knowledge(settings, visitor_key(settings)), again=True),
            appends=[(table, _LINES[table.lines]) for table in (requests.TABLE, rejected.TABLE)],
        ),
        upserts=(),
        second=False,
    )


def _derived(meaning: MeaningSettings) -> tuple[Derivation, ...]:
    made = _aggregations(meaning, [table for table in LAYER_TABLES if not table.follows])
    return tuple(
        Derivation(
            tables=(table,),
            source=requests.TABLE,
            time=requests.TABLE.time,
            work=_work_on_requests([(table, each)]),
            upserts=((table, each),),
            second=not table.now,
            window_seconds=each.window_seconds,
            whole=each.window_seconds is None,
        )
        for table, each in made
    )


def places() -> Places:
    """The tables with data of visitors, for `forget`."""
    return Places.of(LAYER_TABLES, ACCOUNTS, SITES)


def rebuildable() -> list[str]:
    """Names of the tables that are made from others."""
    return [table.name for table in LAYER_TABLES if table is not access_log.TABLE]
