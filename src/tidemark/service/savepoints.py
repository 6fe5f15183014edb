"""Creates and restores savepoints of a home."""

from __future__ import annotations

from dataclasses import replace

from tidemark.operate import losses
from tidemark.operate.savepoints import Savepoint, create, restore, saved_tables
from tidemark.pipeline import Pipeline
from tidemark.service.access import audit_of
from tidemark.settings import Settings
from tidemark.store import lakehouse


def make_savepoint(settings: Settings, name: str) -> Savepoint:
    """Creates a savepoint. Raises as `tidemark.operate.savepoints.create`."""
    pipeline = Pipeline.of(settings)
    lakehouse.require_files(pipeline.lakehouse, "`savepoint`")
    losses.require_whole(pipeline)
    return create(settings, name)


def restore_savepoint(
    settings: Settings, name: str, into: Settings | None, partitions: int | None, *, other_key: bool
) -> Savepoint:
    """Restores a savepoint. Raises as `tidemark.operate.savepoints.restore`, and TableError if the home's visitor key
    is not the savepoint's, unless `other_key` allows it."""
    saved = saved_tables(settings, name)
    if not other_key:
        replace(Pipeline.of(settings), lakehouse=saved).require_key()
    audit = audit_of(settings)
    newest = audit.rows() if into is None else None
    restored = restore(settings, name, into, partitions)
    if newest is not None:
        # A restore takes nothing out of the record of access.
        audit.put_back(newest)
    return restored
