"""What the commands do to a home's tables. Knows the tables through the composition root only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tidemark import kafka, lakehouse
from tidemark.difference import Difference
from tidemark.errors import TableError
from tidemark.flow import gate
from tidemark.flow.run import run
from tidemark.flow.same_topic import has_read, require_same_topic
from tidemark.forget import Forgotten, forget
from tidemark.lakehouse import Lakehouse
from tidemark.maintain import Done, keep, maintain
from tidemark.pipeline import TABLES, chain, flows, places, rebuildable, rebuilding, streams
from tidemark.quality.runner import Runner, check_new, watch
from tidemark.quality.tables import ACCOUNTS
from tidemark.rebuild import Say
from tidemark.savepoints import Savepoint, create
from tidemark.session import spark_session
from tidemark.settings import Settings
from tidemark.store.deltars import DeltaRsStore


def run_pipeline(settings: Settings, *, once: bool) -> None:
    """The `run` command: all flows over the settings' Kafka and lakehouse, until stopped.

    Raises TidemarkError: an unreachable Kafka, a busy home, a table or checkpoint that does not fit.
    """
    with gate.only_pipeline(settings):
        kafka.require_reachable(settings)
        house = lakehouse.of(settings)
        if not has_read(settings, chain(house).first):
            kafka.ensure_topic(settings, settings.topic)
        require_same_topic(settings, chain(house).first)
        spark = spark_session(settings)
        store = DeltaRsStore(house)
        quality = watch(spark, settings, house, store, TABLES)
        run(
            spark, settings, house, store, TABLES, flows(settings, house, store),
            once=once, beside=[quality, keep(settings, house, TABLES, streams(house))],
        )  # fmt: skip
        if once and settings.quality_interval_seconds:
            check_new(Runner(spark, settings, house, store, TABLES), only_if_new=True)


def maintain_tables(settings: Settings) -> list[Done]:
    """The `maintain` command: the upkeep that the pipeline does by itself, now. Raises as `maintain`."""
    house = lakehouse.of(settings)
    return maintain(settings, house, TABLES, streams(house))


def rebuild_table(
    settings: Settings, name: str, since: datetime | None, *, dry_run: bool, say: Say
) -> list[Difference]:
    """The `rebuild` command: a table and all that is made from it; `all` is silver.requests.

    Raises TableError for a table that is not made from others, or tables that are not there yet.
    """
    made = rebuildable(settings)
    if name != "all" and name not in made:
        raise TableError(
            f"{name} cannot be rebuilt", f"Tables made from others are {', '.join(made)}; or all."
        )
    house = _house_with_tables(settings)
    names = ["silver.requests"] if name == "all" else [name]
    return rebuilding(spark_session(settings), settings, house, say).run(names, since, dry_run=dry_run)


def make_savepoint(settings: Settings, name: str) -> Savepoint:
    """The `savepoint create` command. Raises as `savepoints.create`."""
    house = lakehouse.of(settings)
    return create(settings, house, name, TABLES, streams(house), chain(house).first)


def forget_visitor(settings: Settings, *, visitor: str, address: str) -> Forgotten:
    """The `forget` command. Raises as `forget`, and TableError without tables."""
    house = _house_with_tables(settings)
    return forget(
        settings, house, TABLES, chain(house), streams(house), places(), visitor=visitor, address=address
    )


def _house_with_tables(settings: Settings) -> Lakehouse:
    house = lakehouse.of(settings)
    if not (Path(house.path(ACCOUNTS)) / "_delta_log").is_dir():
        raise TableError(f"no tables yet in {settings.home}", "Run `tidemark run` or `tidemark demo` first.")
    return house


def check_quality(
    settings: Settings, names: Sequence[str] = (), since: datetime | None = None
) -> tuple[list[dict[str, Any]], Path]:
    """The `quality` command: checks the named tables (default: all), their rows written after `since`.

    Works beside a running pipeline. Gives the run's rows of quality.results and the Data Docs' first page.
    Raises TableError without tables or for an unknown name.
    """
    unknown = sorted(set(names) - {table.name for table in TABLES})
    if unknown:
        known = ", ".join(table.name for table in TABLES)
        raise TableError(f"there is no table {', '.join(unknown)}", f"The tables are {known}.")
    house = _house_with_tables(settings)
    store = DeltaRsStore(house)
    chosen = [table for table in TABLES if not names or table.name in names]
    runner = Runner(spark_session(settings), settings, house, store, chosen, for_docs=True)
    return runner.run_all(since), runner.write_docs()
