"""Deletes the data of a visitor."""

from __future__ import annotations

from dataclasses import replace

from tidemark.operate import losses, notes
from tidemark.operate.forget import Forgotten, forget, holding
from tidemark.operate.prove import where_found
from tidemark.operate.topic_erasure import erase_records
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings
from tidemark.store import lakehouse


def forget_visitor(settings: Settings, *, visitor: str, address: str) -> Forgotten:
    """Deletes a visitor's data from the tables, and from Kafka all records that are in bronze. Raises as
    `tidemark.operate.forget.forget`, and TableError without tables."""
    pipeline = Pipeline.of(settings)
    losses.require_tables(pipeline)
    lakehouse.require_files(pipeline.lakehouse, "`forget`")
    losses.require_whole(pipeline)
    pipeline.require_key()
    forgotten = forget(pipeline, visitor=visitor, address=address)
    if any(forgotten.rows.values()):
        forgotten = replace(forgotten, records=erase_records(pipeline))
    notes.record(settings, pipeline.store, "A visitor was deleted", notes.FORGET)
    return forgotten


def found_still(settings: Settings, *, visitor: str, address: str) -> list[str]:
    """The files of the home in which the visitor's id, or the address, still stands. Raises TableError for a file that
    cannot be read."""
    return where_found(settings.home, holding(visitor.lower() or address))
