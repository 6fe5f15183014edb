"""The pipeline's upkeep on demand."""

from __future__ import annotations

from tidemark.errors import TableError
from tidemark.home import REQUESTS
from tidemark.operate import losses
from tidemark.operate.catalog_upkeep import maintain_catalog
from tidemark.operate.upkeep import Done, maintain
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings


def maintain_tables(settings: Settings) -> list[Done]:
    """Maintains every table at once. Raises as `maintain`, and TableError for a home without tables."""
    pipeline = Pipeline.of(settings)
    if pipeline.lakehouse.can.files is None:
        return maintain_catalog(pipeline)
    if pipeline.lakehouse.can.register and not pipeline.checkpoint(REQUESTS).exists():
        raise TableError(
            f"the checkpoints of the pipeline that writes to {pipeline.lakehouse.name} are not in {settings.home}",
            "Run `tidemark maintain` on the machine of the pipeline, with its home.",
        )
    losses.require_tables(pipeline)
    return maintain(pipeline)
