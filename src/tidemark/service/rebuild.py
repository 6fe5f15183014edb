"""Rebuilds tables from the tables that they are made of, with the rules and settings of now."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from tidemark.errors import HomeBusyError, SettingError, TableError
from tidemark.operate import losses, notes, privacy_notes
from tidemark.operate.catalog_rebuild import rebuild_in_catalog
from tidemark.operate.catalog_upkeep import erase_old_versions_in_catalog
from tidemark.operate.difference import Changed
from tidemark.operate.rebuild import Report
from tidemark.operate.retention import complete_from
from tidemark.operate.savepoints import savepoints
from tidemark.operate.snapshot import UnsettledError
from tidemark.operate.topic_erasure import erase_records
from tidemark.operate.upkeep import erase_old_versions
from tidemark.parse.visitor import has_visitor_key
from tidemark.pipeline import Pipeline
from tidemark.service.run import run_flows
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.lease import only_writer
from tidemark.stream import inventory, lock, schema_check
from tidemark.stream.table_state import incomplete, record_states

log = logging.getLogger("tidemark.service.rebuild")


def rebuild_table(
    settings: Settings,
    name: str,
    since: datetime | None,
    *,
    dry_run: bool,
    report: Report,
    renew_key: bool = False,
) -> list[Changed]:
    """Rebuilds a table and all tables made from it; `all` is silver.requests. With `renew_key` the visitor key may have
    changed, and is created if it is missing.

    Raises TableError for a table that is not made from others, or missing tables.
    """
    pipeline = Pipeline.of(settings, renew_key=renew_key)
    _require_rebuildable(pipeline, name, since)
    in_catalog = pipeline.lakehouse.can.replaces
    if not in_catalog:
        lakehouse.require_files(pipeline.lakehouse, "`rebuild`")
    losses.require_tables(pipeline)
    if not dry_run:
        privacy_notes.note_changes(pipeline)
    names = ["silver.requests"] if name == "all" else [name]
    before = schema_check.unapplied(pipeline)
    if in_catalog:
        if since is not None:
            raise TableError("catalog tables are rebuilt as a whole", "Leave out --since.")
        changed = _rebuild_catalog(pipeline, names, dry_run=dry_run, report=report)
    else:
        losses.require_whole(pipeline)
        if renew_key and not has_visitor_key(settings):
            _make_key(pipeline, dry_run=dry_run)
        job = pipeline.rebuild(report)
        masks = job.masks
        try:
            changed = job.run(names, since, dry_run=dry_run)
        except UnsettledError as error:
            if not schema_check.changed(pipeline):
                raise
            if dry_run:
                raise TableError(
                    error.problem, "Rebuild without --dry-run: it finishes the last batch."
                ) from error
            _settle(pipeline)
            changed = job.run(names, since)
        if masks and not dry_run and "silver.requests" in names:
            _erase_unmasked(pipeline)
    for table in (pipeline.graph.lines, pipeline.graph.accepted):
        if kept := complete_from(pipeline, table, datetime.now(UTC)):
            log.warning("%s has all lines from %s on: older figures stay as they are", table.name, kept)
    if not dry_run:
        after = schema_check.unapplied(pipeline)
        notes.write(settings, pipeline.store, [notes.rebuilt(name, names, before, after, changed)])
    return changed


def _settle(pipeline: Pipeline) -> None:
    """Lets the flows finish their last batch, which they refuse otherwise where rows no longer fit."""
    unfit = [table for table in pipeline.tables if table.name in schema_check.changed(pipeline)]
    with (
        lock.only_one(pipeline.settings),
        only_writer(pipeline.lakehouse, "a rebuild", home=pipeline.settings.home),
    ):
        run_flows(pipeline, once=True, remade=unfit)


def _erase_unmasked(pipeline: Pipeline) -> None:
    """Deletes what lines were before they were masked: old versions of all tables, and the records in Kafka."""
    of_lines = pipeline.only([table for table in pipeline.tables if table.layer != "quality"])
    if pipeline.lakehouse.can.files is None:
        erase_old_versions_in_catalog(of_lines)
    else:
        for name in erase_old_versions(of_lines):
            log.warning(
                "%s keeps old files that a flow has not read yet; the next `maintain` deletes them", name
            )
    erase_records(pipeline)
    if kept := savepoints(pipeline.settings):
        names = ", ".join(savepoint.name for savepoint in kept)
        log.warning("savepoints still hold the lines as they were, delete them: %s", names)


def _require_rebuildable(pipeline: Pipeline, name: str, since: datetime | None) -> None:
    rebuildable = pipeline.graph.rebuildable
    if name != "all" and name not in rebuildable:
        raise TableError(
            f"{name} cannot be rebuilt", f"Tables made from others are {', '.join(rebuildable)}; or all."
        )
    if pipeline.renew_key and (
        since is not None or name not in ("all", "silver.requests", "silver.rejected")
    ):
        raise SettingError(
            "another visitor key needs all rows made anew", "Use `tidemark rebuild all --new-visitor-key`."
        )


def _make_key(pipeline: Pipeline, *, dry_run: bool) -> None:
    if dry_run:
        raise TableError(
            "without a visitor key there is nothing to compare with", "Rebuild without --dry-run."
        )
    with lock.no_pipeline(pipeline.settings) as stopped:
        if not stopped:
            raise HomeBusyError("the running pipeline still uses the previous visitor key", "Stop it first.")
        pipeline.require_key()


def _rebuild_catalog(
    pipeline: Pipeline, names: Sequence[str], *, dry_run: bool, report: Report
) -> list[Changed]:
    pipeline.require_key()
    changed = schema_check.changed(pipeline)
    if changed and dry_run:
        raise TableError(
            f"the state of {', '.join(changed)} has changed, so the effect of a rebuild cannot be predicted",
            "Rebuild without --dry-run.",
        )
    names = schema_check.with_unfit(names, changed, pipeline.graph.rebuildable)
    home = pipeline.settings.home
    with lock.only_one(pipeline.settings), only_writer(pipeline.lakehouse, "a rebuild", home=home):
        job = pipeline.rebuild(report)
        remade = job.tables(names)
        # A batch that was interrupted is in some tables only.
        run_flows(pipeline, once=True, remade=[] if dry_run else remade)
        result = rebuild_in_catalog(job, names, dry_run=dry_run)
        if not dry_run:
            if job.masks and "silver.requests" in names:
                _erase_unmasked(pipeline)  # if it is interrupted, the next rebuild repeats it
            record_states(pipeline.lakehouse, schema_check.rebuilt(pipeline.settings, remade))
            inventory.announce(pipeline, incomplete(pipeline.lakehouse))
        return result
