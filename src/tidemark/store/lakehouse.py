"""Locations of tables and checkpoints: directories under a home or a URL, or a Unity Catalog schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyarrow import fs

from tidemark.contract.store import Capabilities, Files
from tidemark.contract.table import Table
from tidemark.errors import (
    PlatformError,
    SettingError,
    TableError,
    TidemarkError,
    first_line,
    refused_file,
    shortage,
)
from tidemark.figures.scan import files_of
from tidemark.local import durable
from tidemark.settings import Settings
from tidemark.store import directories, object_storage
from tidemark.store.deltalog import Log
from tidemark.store.register import FileRegister

if TYPE_CHECKING:  # it imports pandas, which takes as long as the rest of a small command
    import pyarrow.dataset as ds

# delta-rs' errors have no number.
_FULL = "No space left on device"


@dataclass(frozen=True)
class Lakehouse:
    """Names tables and checkpoints. Exactly one of `root` (path or URL) and `catalog_schema` is set.

    `suffix` is added to the names of catalog tables, for staged tables beside the live ones. `options` are
    delta-rs' storage options for the root. `iceberg`: new gold tables of a catalog have Iceberg metadata, too.
    """

    checkpoint_root: str
    root: str = ""
    catalog_schema: str = ""
    suffix: str = ""
    options: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    iceberg: bool = False

    @cached_property
    def can(self) -> Capabilities:
        """The capabilities of the tables' storage."""
        if self.catalog_schema:
            register = FileRegister(Path(self.checkpoint_root) / "writer.lease")
            return Capabilities(None, durable=True, keeps_home=False, replaces=True, register=register)
        if object_storage.reaches(self.root):
            return object_storage.capabilities(self.root, self.options)
        if "://" in self.root:
            return Capabilities(files=None, durable=True, keeps_home=True)
        return directories.capabilities(self.root)

    @property
    def files(self) -> Files:
        """The tables' files. Raises TableError if this process cannot reach them."""
        return require_files(self, "this")

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.catalog_schema or self.root

    def path(self, table: Table | str) -> str:
        """Directory or URL of a path table."""
        name = table if isinstance(table, str) else table.name
        return f"{self.root}/{name.replace('.', '/')}"

    def sql_name(self, table: Table | str) -> str:
        """The table's name in SQL: ``delta.`path` `` or `catalog.schema.layer_table`."""
        name = table if isinstance(table, str) else table.name
        if self.catalog_schema:
            return f"{self.catalog_schema}.`{name.replace('.', '_')}{self.suffix}`"
        return f"delta.`{self.path(name)}`"

    def directory(self, table: Table | str) -> str:
        """A table's directory in the file system of `files`."""
        name = table if isinstance(table, str) else table.name
        return f"{self.files.base}/{name.replace('.', '/')}"

    def log(self, table: Table | str) -> Log:
        """A table's log. Raises as `files`."""
        return Log(self.files, self.directory(table))

    def delta(self, table: Table | str, version: int | None = None) -> DeltaTable:
        """A table in delta-rs, at its newest version if none is given. Raises DeltaError."""
        return DeltaTable(self.path(table), version=version, storage_options=self.files.options)

    def dataset(self, table: Table | str, at: DeltaTable) -> ds.Dataset:
        """The rows of a table at the version of `at`."""
        return at.to_pyarrow_dataset(filesystem=files_of(at))

    def exists(self, table: Table | str) -> bool:
        """Whether the table has a log. Raises as `files`."""
        directory = self.files.system.get_file_info(self.log(table).directory)
        return bool(directory.type == fs.FileType.Directory)

    def failure(self, table: Table | str, what: str, error: Exception) -> TidemarkError:
        """The error for one of delta-rs or of the storage: the table cannot be `what`, for example "read"."""
        name = table if isinstance(table, str) else table.name
        problem = f"table {name} at {self.path(table)} cannot be {what}"
        caused = f"{problem}: {first_line(error)}"
        if lack := shortage(error, caused):
            return lack
        if _FULL in str(error):
            remedy = "Free space and start again: nothing is lost, what was interrupted is done again."
            return PlatformError(f"the disk is full: {problem}", remedy)
        if "://" not in self.root and (refused := refused_file(error, problem)):
            return refused
        repair = "See" if self.can.durable else "Run `tidemark repair`, or see"
        return TableError(caused, f"{repair} docs/operations.md, 'A damaged table'.")

    def layers(self) -> list[str]:
        """The directories of the tables' layers; others begin with an underscore. Raises as `files`."""
        return [path for path in self._inside(self.files.base) if not path.rsplit("/", 1)[1].startswith("_")]

    def present(self) -> list[str]:
        """The names of the tables that are there. Raises as `files`."""
        paths = [path for layer in self.layers() for path in self._inside(layer)]
        names = sorted(".".join(path.rsplit("/", 2)[1:]) for path in paths)
        return [name for name in names if self.exists(name)]

    def _inside(self, directory: str) -> list[str]:
        entries = self.files.system.get_file_info(fs.FileSelector(directory, allow_not_found=True))
        return [info.path for info in entries]

    def sync(self) -> None:
        """Returns when everything that was written to the tables, the checkpoints and the directory above these is on
        the devices. Nothing to do where the storage keeps what it has confirmed. Raises OSError."""
        if not self.can.keeps_home:
            return
        checkpoints = Path(self.checkpoint_root)
        tables = () if self.can.durable else (Path(self.root), *Path(self.root).glob("*"))
        durable.sync((checkpoints.parent, checkpoints, *tables))

    def load(self, reader: Any, table: Table) -> Any:
        """The table as a frame of a Spark reader, batch or stream."""
        return reader.table(self.sql_name(table)) if self.catalog_schema else reader.load(self.path(table))

    def beside(self, home: Path, name: str) -> Lakehouse:
        """Separate tables on the same storage, for example of a savepoint, with checkpoints in the home."""
        root = f"{self.root}/_{name}" if "://" in self.root else f"{home}/{name}/tables"
        return Lakehouse(f"{home}/{name}/checkpoints", root, options=self.options)

    def checkpoint(self, flow: str, version: int) -> str:
        """Checkpoint of a flow; each version of the query has its own."""
        return f"{self.checkpoint_root}/{flow}-v{version}"


def of(settings: Settings) -> Lakehouse:
    """The lakehouse of the settings.

    Raises SettingError for a catalog without a permanent checkpoint location, and for a
    tables_location that is not a URL, or is combined with a catalog.
    """
    location = settings.lakehouse.tables_location
    if location and (settings.lakehouse.catalog or "://" not in location):
        raise SettingError(
            f"tables_location {location} is "
            + ("beside a catalog" if settings.lakehouse.catalog else "not a URL"),
            "Name a URL such as s3a://bucket/tidemark, or leave it out.",
        )
    if not settings.lakehouse.catalog:
        root = location.rstrip("/") or str(settings.tables)
        options = object_storage.storage_options(settings.spark.own_options)
        return Lakehouse(checkpoint_root=str(settings.checkpoints), root=root, options=options)
    if not settings.lakehouse.checkpoint_location:
        raise SettingError(
            f"tables in the catalog {settings.lakehouse.catalog} need a checkpoint_location",
            "Name a directory that stays, such as one in a volume.",
        )
    return Lakehouse(
        checkpoint_root=settings.lakehouse.checkpoint_location.rstrip("/"),
        catalog_schema=f"`{settings.lakehouse.catalog}`.`{settings.lakehouse.schema}`",
        iceberg=settings.lakehouse.iceberg,
    )


def require_files(lakehouse: Lakehouse, what: str) -> Files:
    """The tables' files. Raises TableError if this process cannot reach them; `what` is the operation."""
    files = lakehouse.can.files
    if files is None:
        raise TableError(
            f"{what} works on tables in directories and on S3, not on those of {lakehouse.name}",
            "docs/deploy.md, 'Differences with catalog tables', says what to do instead."
            if lakehouse.catalog_schema
            else "Name a directory, or a URL of s3a, as tables_location.",
        )
    return files


def require_repairable(lakehouse: Lakehouse) -> None:
    """Raises TableError if the storage never loses confirmed writes, so that there is nothing to repair."""
    if lakehouse.can.durable:
        raise TableError(
            f"`repair` brings back what a power cut took from directories; {lakehouse.name} keeps what was committed",
            "See docs/operations.md, 'A damaged table'.",
        )


def is_conflict(error: Exception) -> bool:
    """Whether another commit came first, so that the next attempt may succeed. A full disk fails a commit, too."""
    return isinstance(error, CommitFailedError | FileExistsError) and _FULL not in str(error)
