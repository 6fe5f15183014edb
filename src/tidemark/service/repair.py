"""Recovers what tables have lost."""

from __future__ import annotations

from collections.abc import Callable

from tidemark.kafka import client as kafka
from tidemark.local.broker import located
from tidemark.operate import losses
from tidemark.operate.repair import Repair
from tidemark.pipeline import TABLES, chain, flows, places
from tidemark.service.requirements import lakehouse_with_tables
from tidemark.service.run import run_flows
from tidemark.settings import Settings
from tidemark.spark import spark_session
from tidemark.store import lakehouse
from tidemark.store.choose import open_store
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream import lock, schema_check
from tidemark.stream.topic_identity import require_same_topic


def repair_tables(settings: Settings, say: Callable[[str], None]) -> None:
    """The `repair` command: recovers what the tables have lost, then runs the pipeline once.

    Raises as `run_pipeline`, and TableError for losses that need a savepoint or a backup.
    """
    house = lakehouse_with_tables(settings, whole=False)
    lakehouse.require_repairable(house)
    with lock.only_one(settings, settled=False):
        settings = located(settings)
        kafka.require_reachable(settings.kafka)
        require_same_topic(settings.kafka, chain(house).first)
        first, lines = flows(settings, house, DeltaRsStore(house))[0], places().lines
        job = Repair(settings, house, chain(house), first, lines, say)
        lost = job.prepare(schema_check.known(house, TABLES))
        spark = spark_session(settings)
        store = open_store(settings.lakehouse, house, spark)
        for table in TABLES:
            store.ensure(table, table.told(settings))
        job.run(spark, store, lost)
        losses.mark(settings).unlink()
        run_flows(settings, house, once=True)
