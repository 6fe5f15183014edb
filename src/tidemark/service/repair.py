"""Recovers what tables have lost."""

from __future__ import annotations

from collections.abc import Callable

from tidemark.home import REQUESTS
from tidemark.kafka import client as kafka
from tidemark.local.broker import located
from tidemark.operate import losses
from tidemark.operate.repair import Repair
from tidemark.pipeline import Pipeline
from tidemark.service.run import run_flows
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.stream import lock
from tidemark.stream.table_state import committed_tables
from tidemark.stream.topic_identity import require_same_topic


def repair_tables(settings: Settings, report: Callable[[str], None]) -> None:
    """Recovers what the tables have lost, then runs the pipeline once. `report` is called with each step.

    Raises as `run_pipeline`, and TableError for losses that need a savepoint or a backup.
    """
    pipeline = Pipeline.of(settings)
    losses.require_tables(pipeline, lost=True)
    lakehouse.require_repairable(pipeline.lakehouse)
    with lock.only_one(settings, settled=False):
        pipeline = pipeline.with_settings(located(settings))
        kafka.require_reachable(pipeline.settings.kafka)
        require_same_topic(pipeline.settings.kafka, pipeline.checkpoint(REQUESTS))
        lost = Repair(pipeline, pipeline.requests_flow, report).prepare(committed_tables(pipeline))
        pipeline = pipeline.on(pipeline.spark)
        for table in pipeline.tables:
            pipeline.store.ensure(table, table.reader_properties(pipeline.settings))
        Repair(pipeline, pipeline.requests_flow, report).run(lost)
        losses.mark(settings).unlink()
        run_flows(pipeline, once=True)
