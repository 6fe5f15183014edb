"""Runs the pipeline: all flows over the Kafka and the lakehouse of a home."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tidemark.contract.table import Table
from tidemark.home import REQUESTS
from tidemark.kafka import client as kafka
from tidemark.local.broker import located
from tidemark.loops import Side, stopping_when
from tidemark.operate import losses
from tidemark.pipeline import Pipeline
from tidemark.service.beside import Beside
from tidemark.service.rounds import Add, run_in_rounds
from tidemark.settings import Settings
from tidemark.spark import starting_session
from tidemark.store.lease import only_writer
from tidemark.stream import lock
from tidemark.stream.metrics import Metrics
from tidemark.stream.run import run
from tidemark.stream.topic_identity import has_read, require_same_topic

# How often it is asked whether another process has taken the tables over.
_LOST_SECONDS = 0.5


def run_pipeline(settings: Settings, *, once: bool, wait: float = 5.0) -> None:
    """Runs all flows until a signal stops them; with `once`, until they have caught up. Kafka may take `wait` seconds
    until it answers.

    Raises TidemarkError: an unreachable Kafka, a busy home, an incompatible table or checkpoint.
    """
    pipeline = Pipeline.of(settings)
    with lock.only_one(settings), only_writer(pipeline.lakehouse, "a pipeline", home=settings.home) as lost:
        run_flows(pipeline, once=once, wait=wait, beside=[stopping_when(lost.is_set, _LOST_SECONDS)])


def run_flows(
    pipeline: Pipeline,
    *,
    once: bool,
    wait: float = 5.0,
    beside: Sequence[Side] = (),
    remade: Sequence[Table] = (),
) -> None:
    """Runs all flows, under the caller's locks. `beside` are further functions that run until their event is set, and
    `remade` tables that are rebuilt right afterwards, and tell nothing before. Raises as `run_pipeline`."""
    require_whole = losses.check_of(pipeline)
    pipeline.require_key()
    pipeline = pipeline.with_settings(located(pipeline.settings))
    # Spark and an embedded broker start at the same time.
    session = starting_session(pipeline.settings)
    _require_topic(pipeline, wait)
    threading.Thread(target=pipeline.warm_up, daemon=True).start()
    pipeline = pipeline.on(session())

    def one_round(settings: Settings, add: Add) -> bool:
        now = pipeline.with_settings(settings)
        work = Beside(now, metrics := Metrics())
        work.note_changes()
        stopped = run(
            now,
            now.flows,
            once=once,
            beside=add([*beside, *work.sides(once=once)], work.is_filling),
            remade=remade,
            metrics=metrics,
            require_whole=require_whole,
        )
        if once and not remade:
            work.once()
        return stopped or once

    run_in_rounds(pipeline.settings, one_round)


def _require_topic(pipeline: Pipeline, wait: float) -> None:
    """Creates the topic unless lines were read from it already. Raises KafkaError if it is another one than then."""
    settings, checkpoint = pipeline.settings.kafka, pipeline.checkpoint(REQUESTS)
    kafka.require_reachable(settings, wait)
    if not has_read(settings, checkpoint):
        kafka.ensure_topic(settings, settings.topic)
    require_same_topic(settings, checkpoint)
