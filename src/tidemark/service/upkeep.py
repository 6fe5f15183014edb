"""The pipeline's upkeep on demand."""

from __future__ import annotations

from tidemark.errors import TableError
from tidemark.operate.catalog_upkeep import maintain_catalog
from tidemark.operate.upkeep import Done, maintain
from tidemark.pipeline import TABLES, chain, streams
from tidemark.service.requirements import lakehouse_with_tables
from tidemark.settings import Settings
from tidemark.spark import spark_session
from tidemark.store import lakehouse


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
    return maintain(settings, lakehouse_with_tables(settings), TABLES, streams(house))
