"""Where tables and checkpoints live: directories under a home or a URL, or a Unity Catalog schema."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.contract.table import Table
from tidemark.errors import SettingError, TableError
from tidemark.settings import Settings


@dataclass(frozen=True)
class Lakehouse:
    """Names tables and checkpoints. Exactly one of `root` (path or URL) and `catalog_schema` is set.

    `suffix` is added to the names of catalog tables, for tables that are made beside the live ones.
    """

    checkpoint_root: str
    root: str = ""
    catalog_schema: str = ""
    suffix: str = ""

    @property
    def in_catalog(self) -> bool:
        return bool(self.catalog_schema)

    @property
    def on_this_machine(self) -> bool:
        """Whether tables are directories that this process reads and writes as files."""
        return not self.in_catalog and "://" not in self.root

    def path(self, table: Table | str) -> str:
        """Directory or URL of a path table."""
        name = table if isinstance(table, str) else table.name
        return f"{self.root}/{name.replace('.', '/')}"

    def sql_name(self, table: Table | str) -> str:
        """How SQL names the table: ``delta.`path` `` or `catalog.schema.layer_table`."""
        name = table if isinstance(table, str) else table.name
        if self.in_catalog:
            return f"{self.catalog_schema}.`{name.replace('.', '_')}{self.suffix}`"
        return f"delta.`{self.path(name)}`"

    def checkpoint(self, flow: str, version: int) -> str:
        """Checkpoint of a flow; another query version is another state, hence another place."""
        return f"{self.checkpoint_root}/{flow}-v{version}"


def of(settings: Settings) -> Lakehouse:
    """The lakehouse that the settings describe.

    Raises SettingError for a catalog without what must outlive the machine that the pipeline runs on, and for a
    tables_location that is no URL, or beside a catalog.
    """
    location = settings.tables_location
    if location and (settings.catalog or "://" not in location):
        raise SettingError(
            f"tables_location {location} is " + ("beside a catalog" if settings.catalog else "not a URL"),
            "Name a URL such as s3a://bucket/tidemark, or leave it out.",
        )
    if not settings.catalog:
        root = location.rstrip("/") or str(settings.tables)
        return Lakehouse(checkpoint_root=str(settings.checkpoints), root=root)
    if not settings.checkpoint_location:
        raise SettingError(
            f"tables in the catalog {settings.catalog} need a checkpoint_location",
            "Name a directory that stays, such as one in a volume.",
        )
    return Lakehouse(
        checkpoint_root=settings.checkpoint_location.rstrip("/"),
        catalog_schema=f"`{settings.catalog}`.`{settings.schema}`",
    )


def require_directories(house: Lakehouse, what: str) -> None:
    """Raises TableError if the tables are elsewhere than in directories, which is where `what` works."""
    if not house.on_this_machine:
        raise TableError(
            f"{what} works on tables in directories of this machine, not on those of "
            f"{house.catalog_schema or house.root}",
            "docs/deploy.md, 'What is different with catalog tables', says what to do instead."
            if house.in_catalog
            else "docs/cluster.md, 'Tables on S3', says what to do instead.",
        )
