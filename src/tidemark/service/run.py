"""Runs the pipeline: all flows over the Kafka and the lakehouse of a home."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from tidemark.contract.table import Table
from tidemark.kafka import client as kafka
from tidemark.local.broker import located
from tidemark.operate import losses
from tidemark.pipeline import TABLES, chain, flows, home_key, warm_up
from tidemark.service.beside import Beside, is_filling
from tidemark.service.requirements import only_writer_of, require_lasting_key
from tidemark.service.rounds import Add, run_in_rounds
from tidemark.settings import Settings
from tidemark.spark import starting_session
from tidemark.store import lakehouse
from tidemark.store.choose import open_store
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.lease import stopping_when
from tidemark.stream import lock, schema_check
from tidemark.stream.metrics import Metrics
from tidemark.stream.run import Side, run
from tidemark.stream.topic_identity import has_read, require_same_topic


def run_pipeline(settings: Settings, *, once: bool, wait: float = 5.0) -> None:
    """The `run` command: all flows over the settings' Kafka and lakehouse, until stopped. Kafka may take `wait` seconds
    until it answers.

    Raises TidemarkError: an unreachable Kafka, a busy home, an incompatible table or checkpoint.
    """
    house = lakehouse.of(settings)
    with lock.only_one(settings), only_writer_of(settings, house, "a pipeline") as lost:
        run_flows(settings, house, once=once, wait=wait, beside=[stopping_when(lost)])


def run_flows(
    settings: Settings,
    house: Lakehouse,
    *,
    once: bool,
    wait: float = 5.0,
    beside: Sequence[Side] = (),
    remade: Sequence[Table] = (),
    renew_key: bool = False,
) -> None:
    require_lasting_key(settings.meaning, house)
    losses.require_repaired(settings)
    known = schema_check.known(house, TABLES)
    home_key(settings, house, renew=renew_key)
    settings = located(settings)
    # Spark and an embedded broker start at the same time.
    session = starting_session(settings)
    kafka.require_reachable(settings.kafka, wait)
    if not has_read(settings.kafka, chain(house).first):
        kafka.ensure_topic(settings.kafka, settings.kafka.topic)
    require_same_topic(settings.kafka, chain(house).first)
    threading.Thread(target=warm_up, args=(settings,), daemon=True).start()
    spark = session()
    store = open_store(settings.lakehouse, house, spark)
    whole = partial(losses.require_whole, settings, house, chain(house), known)

    def one_round(settings: Settings, add: Add) -> bool:
        work = Beside(spark, settings, house, store, metrics := Metrics())
        work.note_changes()
        told = run(
            spark, settings, house, store, TABLES, flows(settings, house, store, renew_key=renew_key), once=once,
            beside=add([*beside, *work.sides(once=once)]), remade=remade, metrics=metrics, require_whole=whole,
        )  # fmt: skip
        if once:
            work.once()
        return told or once

    run_in_rounds(settings, one_round, lambda settings: is_filling(settings, house, store))
