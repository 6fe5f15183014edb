"""Deletes the data of a visitor or of a site."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidemark.figures.notes import About
from tidemark.operate import losses, notes
from tidemark.operate.forget import Forgotten, forget, forget_site, holding
from tidemark.operate.note import FORGET
from tidemark.operate.prove import files_with
from tidemark.operate.topic_erasure import erase_records
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings
from tidemark.store import lakehouse


def forget_visitor(settings: Settings, *, visitor: str, address: str) -> Forgotten:
    """Deletes a visitor's data from the tables, and from Kafka all records that are in bronze. Raises as
    `tidemark.operate.forget.forget`, and TableError without tables."""
    return _forgotten(
        settings, lambda pipeline: forget(pipeline, visitor=visitor, address=address), About.VISITOR
    )


def forget_all_of(settings: Settings, site: str) -> Forgotten:
    """The same with all data of a site. Raises as `tidemark.operate.forget.forget_site`, and TableError without
    tables."""
    return _forgotten(settings, lambda pipeline: forget_site(pipeline, site), f"{About.SITE} {site}")


def _forgotten(settings: Settings, delete: Callable[[Pipeline], Forgotten], about: str) -> Forgotten:
    pipeline = Pipeline.of(settings)
    losses.require_tables(pipeline)
    lakehouse.require_files(pipeline.lakehouse, "`forget`")
    losses.require_whole(pipeline)
    pipeline.require_key()
    forgotten = delete(pipeline)
    if any(forgotten.rows.values()):
        forgotten = replace(forgotten, records=erase_records(pipeline))
    notes.record(settings, pipeline.store, FORGET, about)
    return forgotten


def remaining_files(settings: Settings, *, visitor: str, address: str) -> list[str]:
    """The files of the home, and of its tables elsewhere, that still contain the visitor's id, or the address.
    Raises TableError for a file that cannot be read."""
    return files_with(settings.home, holding(visitor.lower() or address), lakehouse.of(settings))
