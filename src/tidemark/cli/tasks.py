"""The work of the commands on a home's tables. Knows the tables through the composition root only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tidemark.cli.beside import Beside, is_filling
from tidemark.cli.rounds import Add, run_in_rounds
from tidemark.cli.stores import store_of
from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.table import Table
from tidemark.errors import HomeBusyError, SettingError, TableError
from tidemark.kafka import client as kafka
from tidemark.local.broker import located
from tidemark.operate import losses, notes
from tidemark.operate.catalog_upkeep import maintain_catalog
from tidemark.operate.difference import Changed
from tidemark.operate.forget import Forgotten, forget
from tidemark.operate.quality import runner as quality
from tidemark.operate.quality.check import Checker
from tidemark.operate.rebuild import Say
from tidemark.operate.repair import Repair
from tidemark.operate.savepoints import Savepoint, create, restore, saved_tables
from tidemark.operate.upkeep import Done, maintain
from tidemark.parse.visitor import has_visitor_key
from tidemark.pipeline import (
    TABLES,
    chain,
    flows,
    followers,
    home_key,
    places,
    rebuildable,
    rebuilding,
    rebuilding_catalog,
    streams,
    warm_up,
)
from tidemark.settings import Settings
from tidemark.settings.sections import MeaningSettings
from tidemark.spark import spark_session, starting_session
from tidemark.store import deltalog, lakehouse
from tidemark.store.choose import open_store
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.lease import only_writer, stopping_when
from tidemark.stream import inventory, lock, schema_check
from tidemark.stream.metrics import Metrics
from tidemark.stream.run import Side, run
from tidemark.stream.topic_identity import has_read, require_same_topic


def run_pipeline(settings: Settings, *, once: bool, wait: float = 5.0) -> None:
    """The `run` command: all flows over the settings' Kafka and lakehouse, until stopped. Kafka may take `wait` seconds
    until it answers.

    Raises TidemarkError: an unreachable Kafka, a busy home, an incompatible table or checkpoint.
    """
    house = lakehouse.of(settings)
    with lock.only_one(settings), _only_writer(settings, house, "a pipeline") as lost:
        _run(settings, house, once=once, wait=wait, beside=[stopping_when(lost)])


def _run(
    settings: Settings,
    house: Lakehouse,
    *,
    once: bool,
    wait: float = 5.0,
    beside: Sequence[Side] = (),
    remade: Sequence[Table] = (),
    renew_key: bool = False,
) -> None:
    _require_lasting_key(settings.meaning, house)
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


def _only_writer(settings: Settings, house: Lakehouse, what: str) -> AbstractContextManager[threading.Event]:
    return only_writer(house, what, home=settings.home if house.can.keeps_home else None)


def _require_lasting_key(meaning: MeaningSettings, house: Lakehouse) -> None:
    """Requires a visitor key where the home does not stay: a key made in it would differ on the next cluster."""
    if not house.can.keeps_home and not meaning.visitor_key:
        raise SettingError(
            f"tables in {house.name} need a visitor_key that stays",
            "Set TIDEMARK_VISITOR_KEY, from a secret.",
        )


def maintain_tables(settings: Settings) -> list[Done]:
    """The `maintain` command: the pipeline's upkeep, at once. Raises as `maintain`, and TableError for a home
    without tables."""
    house = lakehouse.of(settings)
    if house.can.files is None:
        return maintain_catalog(spark_session(settings), settings.upkeep, house, TABLES)
    if house.can.register and not chain(house).first.exists():
        raise TableError(
            f"the checkpoints of the pipeline that writes to {house.name} are not in {settings.home}",
            "Run `tidemark maintain` on the machine of the pipeline, with its home.",
        )
    return maintain(settings, _house_with_tables(settings), TABLES, streams(house))


def rebuild_table(
    settings: Settings, name: str, since: datetime | None, *, dry_run: bool, say: Say, renew_key: bool = False
) -> list[Changed]:
    """The `rebuild` command: a table and all tables made from it; `all` is silver.requests. With `renew_key` the
    visitor key may have changed, and is created if it is missing.

    Raises TableError for a table that is not made from others, or missing tables.
    """
    made = rebuildable()
    if name != "all" and name not in made:
        raise TableError(
            f"{name} cannot be rebuilt", f"Tables made from others are {', '.join(made)}; or all."
        )
    if renew_key and (since is not None or name not in ("all", "silver.requests", "silver.rejected")):
        raise SettingError(
            "another visitor key needs all rows made anew", "Use `tidemark rebuild all --new-visitor-key`."
        )
    house = lakehouse.of(settings)
    if not house.can.replaces:
        lakehouse.require_files(house, "`rebuild`")
    house = _house_with_tables(settings)
    names = ["silver.requests"] if name == "all" else [name]
    unapplied = partial(schema_check.unapplied, settings, house, TABLES)
    before = unapplied()
    if house.can.replaces:
        if since is not None:
            raise TableError("catalog tables are rebuilt as a whole", "Leave out --since.")
        found = _rebuild_catalog(settings, house, names, dry_run=dry_run, say=say, renew_key=renew_key)
    else:
        losses.require_whole(settings, house, chain(house), schema_check.known(house, TABLES))
        if renew_key and not has_visitor_key(settings):
            _make_key_for(settings, house, dry_run=dry_run)
        home_key(settings, house, renew=renew_key)
        found = rebuilding(spark_session(settings), settings, house, say).run(names, since, dry_run=dry_run)
    if not dry_run:
        notes.write(settings, store_of(settings), [notes.rebuilt(name, names, before, unapplied(), found)])
    return found


def _make_key_for(settings: Settings, house: Lakehouse, *, dry_run: bool) -> None:
    if dry_run:
        raise TableError(
            "without a visitor key there is nothing to compare with", "Rebuild without --dry-run."
        )
    with lock.no_pipeline(settings) as stopped:
        if not stopped:
            raise HomeBusyError("the running pipeline still uses the previous visitor key", "Stop it first.")
        home_key(settings, house, renew=True)


def _rebuild_catalog(
    settings: Settings, house: Lakehouse, names: Sequence[str], *, dry_run: bool, say: Say, renew_key: bool
) -> list[Changed]:
    _require_lasting_key(settings.meaning, house)
    home_key(settings, house, renew=renew_key)
    changed = schema_check.changed(settings, house, TABLES)
    if changed and dry_run:
        raise TableError(
            f"the state of {', '.join(changed)} has changed, so the effect of a rebuild cannot be predicted",
            "Rebuild without --dry-run.",
        )
    names = schema_check.with_unfit(names, changed, rebuildable())
    with lock.only_one(settings), _only_writer(settings, house, "a rebuild"):
        job = rebuilding_catalog(spark_session(settings), settings, house, say)
        remade = job.tables(names)
        # A batch that was interrupted is in some tables only.
        _run(settings, house, once=True, remade=[] if dry_run else remade, renew_key=renew_key)
        found = job.run(names, dry_run=dry_run)
        if not dry_run:
            schema_check.write(house, schema_check.rebuilt(settings, remade))
            store = open_store(settings.lakehouse, house, spark_session(settings))
            inventory.announce(settings, store, TABLES, schema_check.incomplete(house))
        return found


def repair_tables(settings: Settings, say: Callable[[str], None]) -> None:
    """The `repair` command: recovers what the tables have lost, then runs the pipeline once.

    Raises as `run_pipeline`, and TableError for losses that need a savepoint or a backup.
    """
    house = _house_with_tables(settings, whole=False)
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
        _run(settings, house, once=True)


def make_savepoint(settings: Settings, name: str) -> Savepoint:
    """The `savepoint create` command. Raises as `savepoints.create`."""
    house = lakehouse.of(settings)
    lakehouse.require_files(house, "`savepoint`")
    losses.require_whole(settings, house, chain(house), schema_check.known(house, TABLES))
    return create(settings, house, name)


def restore_savepoint(
    settings: Settings, name: str, into: Settings | None, partitions: int | None, *, other_key: bool
) -> Savepoint:
    """The `savepoint restore` command. Raises as `savepoints.restore`, and TableError if the home's visitor key is
    not the savepoint's, unless `other_key` allows it."""
    house = saved_tables(settings, name)
    if not other_key:
        home_key(settings, house)
    return restore(settings, name, into, partitions)


def forget_visitor(settings: Settings, *, visitor: str, address: str) -> Forgotten:
    """The `forget` command. Raises as `forget`, and TableError without tables."""
    house = _house_with_tables(settings)
    lakehouse.require_files(house, "`forget`")
    losses.require_whole(settings, house, chain(house), schema_check.known(house, TABLES))
    home_key(settings, house)
    forgotten = forget(
        settings, house, TABLES, chain(house), streams(house), places(), followers(settings.meaning),
        visitor=visitor, address=address,
    )  # fmt: skip
    notes.record(settings, store_of(settings), "A visitor was deleted", notes.FORGET)
    return forgotten


def _house_with_tables(settings: Settings, *, whole: bool = True) -> Lakehouse:
    """The settings' lakehouse. Raises TableError if its pipeline has not run yet or, unless `whole` is false, if
    its table quality.accounts or quality.sites is lost."""
    house = lakehouse.of(settings)
    store = store_of(settings)
    # A job's home has accounts, too.
    missing = [table for table in (ACCOUNTS, SITES) if not store.exists(table)]
    if missing and not house.can.durable and deltalog.last_batch(chain(house).first) >= 0:
        if whole:
            raise TableError(f"table {missing[0].name} at {house.path(missing[0])} is lost", losses.REPAIR)
        return house
    if missing:
        raise TableError(f"no tables yet in {house.name}", "Run `tidemark run` or `tidemark demo` first.")
    return house


def check_quality(
    settings: Settings, names: Sequence[str] = (), since: datetime | None = None
) -> tuple[list[dict[str, Any]], Path]:
    """The `quality` command: checks the named tables (default: all), their rows written after `since`.

    Works beside a running pipeline. Returns the run's rows of quality.results and the Data Docs' first page.
    Raises TableError without tables or for an unknown name.
    """
    unknown = sorted(set(names) - {table.name for table in TABLES})
    if unknown:
        known = ", ".join(table.name for table in TABLES)
        raise TableError(f"there is no table {', '.join(unknown)}", f"The tables are {known}.")
    _house_with_tables(settings)
    store = store_of(settings)
    chosen = [table for table in TABLES if not names or table.name in names]
    checker = Checker(settings, store, chosen, for_docs=True)
    return quality.run(settings, store, chosen, partial(checker.all, since=since)), checker.write_docs()
