"""Where tables and checkpoints live: directories under a home or a URL, or a Unity Catalog schema."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.settings import Settings
from tidemark.table import Table


@dataclass(frozen=True)
class Lakehouse:
    """Names tables and checkpoints. Exactly one of `root` (path or URL) and `catalog_schema` is set."""

    checkpoint_root: str
    root: str = ""
    catalog_schema: str = ""

    @property
    def in_catalog(self) -> bool:
        return bool(self.catalog_schema)

    def path(self, table: Table | str) -> str:
        """Directory or URL of a path table."""
        name = table if isinstance(table, str) else table.name
        return f"{self.root}/{name.replace('.', '/')}"

    def sql_name(self, table: Table | str) -> str:
        """How SQL names the table: ``delta.`path` `` or `catalog.schema.layer_table`."""
        name = table if isinstance(table, str) else table.name
        if self.in_catalog:
            return f"{self.catalog_schema}.{name.replace('.', '_')}"
        return f"delta.`{self.path(name)}`"

    def checkpoint(self, flow: str, version: int) -> str:
        """Checkpoint of a flow; another query version is another state, hence another place."""
        return f"{self.checkpoint_root}/{flow}-v{version}"


def of(settings: Settings) -> Lakehouse:
    """The lakehouse that the settings describe."""
    return Lakehouse(checkpoint_root=str(settings.checkpoints), root=str(settings.tables))
