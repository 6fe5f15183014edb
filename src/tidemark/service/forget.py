"""Deletes the data of a visitor."""

from __future__ import annotations

from tidemark.operate import losses, notes
from tidemark.operate.forget import Forgotten, forget
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings
from tidemark.store import lakehouse


def forget_visitor(settings: Settings, *, visitor: str, address: str) -> Forgotten:
    """Deletes a visitor's data. Raises as `tidemark.operate.forget.forget`, and TableError without tables."""
    pipeline = Pipeline.of(settings)
    losses.require_tables(pipeline)
    lakehouse.require_files(pipeline.lakehouse, "`forget`")
    losses.require_whole(pipeline)
    pipeline.require_key()
    forgotten = forget(pipeline, visitor=visitor, address=address)
    notes.record(settings, pipeline.store, "A visitor was deleted", notes.FORGET)
    return forgotten
