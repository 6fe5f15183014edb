"""Rebuilds tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from tidemark.errors import HomeBusyError, SettingError, TableError
from tidemark.operate import losses, notes
from tidemark.operate.difference import Changed
from tidemark.operate.rebuild import Say
from tidemark.parse.visitor import has_visitor_key
from tidemark.pipeline import TABLES, chain, home_key, rebuildable, rebuilding, rebuilding_catalog
from tidemark.service.requirements import lakehouse_with_tables, only_writer_of, require_lasting_key
from tidemark.service.run import run_flows
from tidemark.service.stores import store_of
from tidemark.settings import Settings
from tidemark.spark import spark_session
from tidemark.store import lakehouse
from tidemark.store.choose import open_store
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import inventory, lock, schema_check


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
    house = lakehouse_with_tables(settings)
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
    require_lasting_key(settings.meaning, house)
    home_key(settings, house, renew=renew_key)
    changed = schema_check.changed(settings, house, TABLES)
    if changed and dry_run:
        raise TableError(
            f"the state of {', '.join(changed)} has changed, so the effect of a rebuild cannot be predicted",
            "Rebuild without --dry-run.",
        )
    names = schema_check.with_unfit(names, changed, rebuildable())
    with lock.only_one(settings), only_writer_of(settings, house, "a rebuild"):
        job = rebuilding_catalog(spark_session(settings), settings, house, say)
        remade = job.tables(names)
        # A batch that was interrupted is in some tables only.
        run_flows(settings, house, once=True, remade=[] if dry_run else remade, renew_key=renew_key)
        found = job.run(names, dry_run=dry_run)
        if not dry_run:
            schema_check.write(house, schema_check.rebuilt(settings, remade))
            store = open_store(settings.lakehouse, house, spark_session(settings))
            inventory.announce(settings, store, TABLES, schema_check.incomplete(house))
        return found
