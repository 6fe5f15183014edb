"""The pipeline's upkeep on demand."""

from __future__ import annotations

from dataclasses import replace

from tidemark.errors import TableError
from tidemark.home import REQUESTS
from tidemark.importing import journal
from tidemark.operate import losses
from tidemark.operate.catalog_upkeep import maintain_catalog
from tidemark.operate.forget import holding
from tidemark.operate.prove import files_with
from tidemark.operate.retention import expired_files
from tidemark.operate.upkeep import Done, maintain
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings
from tidemark.store import lakehouse


def maintain_tables(settings: Settings, *, at_once: bool = False) -> list[Done]:
    """Maintains every table; `at_once` as in `tidemark.operate.upkeep.maintain`. Raises as that, and TableError for a
    home without tables."""
    pipeline = Pipeline.of(settings)
    if at_once:
        lakehouse.require_files(pipeline.lakehouse, "`maintain --prove`")
    if pipeline.lakehouse.can.files is None:
        return maintain_catalog(pipeline)
    if pipeline.lakehouse.can.register and not pipeline.checkpoint(REQUESTS).exists():
        raise TableError(
            f"the checkpoints of the pipeline that writes to {pipeline.lakehouse.name} are not in {settings.home}",
            "Run `tidemark maintain` on the machine of the pipeline, with its home.",
        )
    losses.require_tables(pipeline)
    if (settings.home / journal.NAME).exists():  # as `tidemark view` makes it: no stream reads its tables
        pipeline = replace(pipeline, readers={})
    return maintain(pipeline, at_once=at_once)


def remaining_files(settings: Settings, value: str) -> list[str]:
    """The files of the home, and of its tables elsewhere, that contain a value: an address in any spelling, or a
    text. Without a value, those that have rows whose time is over. Raises TableError for a file that cannot be read."""
    pipeline = Pipeline.of(settings)
    if value:
        return files_with(settings.home, holding(text=value), pipeline.lakehouse)
    return expired_files(pipeline)
