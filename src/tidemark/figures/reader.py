"""Access of the pages to storage: a reader of tables with a local and a warehouse backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeAlias, TypeVar

from tidemark.errors import TableError
from tidemark.figures.query import Query

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class Version:
    """State of a table: its Delta version and when that was committed (UTC)."""

    number: int
    committed_at: datetime


# Names of files, each with the first and the last time of its rows (UTC).
Files: TypeAlias = "list[tuple[str, datetime, datetime]]"


@dataclass(frozen=True)
class Contract:
    """A table's contract: the pipeline's `properties` by name, without their prefix, and the columns' descriptions."""

    properties: Mapping[str, str]
    columns: Mapping[str, str]

    def names(self, name: str) -> list[str]:
        """A property that lists columns."""
        return [part for part in self.properties.get(name, "").split(",") if part]

    def number(self, name: str) -> float | None:
        """A numeric property; None if the table was made by a version without it."""
        try:
            return float(self.properties[name])
        except (KeyError, ValueError):
            return None


def properties_of(configuration: Mapping[str, str]) -> dict[str, str]:
    """The pipeline's properties among those of a table."""
    prefix = "tidemark."
    return {
        name.removeprefix(prefix): value for name, value in configuration.items() if name.startswith(prefix)
    }


class ReadError(TableError):
    """A table exists but cannot be read; the text is one line."""


class ShortageError(ReadError):
    """The machine lacks what reading needs, such as memory."""


class MissingTableError(ReadError):
    """The table does not exist yet."""


class MissingColumnError(ReadError):
    """The table has no such column yet: an earlier version made it, and no pipeline of this one has run since."""


Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


def again(read: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """Reads once more, from the beginning, what could not be read: a rebuild, a restore or `forget` may have replaced
    the table's files meanwhile, and the next reading opens the new ones. Functions that consume the rows of
    `Reader.coded` need this, too, because files can disappear after it returned."""

    @wraps(read)
    def twice(*args: Asked.args, **named: Asked.kwargs) -> Answer:
        try:
            return read(*args, **named)
        except (MissingTableError, ShortageError):
            raise
        except ReadError:
            return read(*args, **named)

    return twice


# How DataFusion, Arrow and Spark say so.
_NO_COLUMN = re.compile(
    r"No field named (?:\w+\.)?\W?(\w+)"
    r"|No match for FieldRef\.Name\((\w+)\)"
    r"|\[UNRESOLVED_COLUMN.*?`(\w+)` cannot be resolved"
)


def unreadable(table: str, reason: str, remedy: str = "") -> ReadError:
    """The error for a table that an engine could not read. `reason` is a line of its message, and the remedy is for
    any other reason than a column that is not there yet."""
    if match := _NO_COLUMN.search(reason):
        return MissingColumnError(
            f"{table} has no column {match[match.lastindex or 0]} yet: an earlier version made it",
            "Start the pipeline, which adds it: `tidemark run`.",
        )
    return ReadError(f"{table} cannot be read: {reason}", remedy)


class Reader(Protocol):
    """Reads tables named `<layer>/<table>`. All timestamps that come out are UTC, microseconds."""

    @property
    def label(self) -> str: ...

    @property
    def root(self) -> str:
        """The directory or URL of the tables; empty where a catalog has them."""
        ...

    def version(self, table: str) -> Version | None:
        """The newest version, None when the table does not exist. Raises ReadError when it is unreadable."""
        ...

    def contract(self, table: str) -> Contract:
        """The table's contract. Raises MissingTableError or ReadError."""
        ...

    def files(self, table: str, time: str) -> Files | None:
        """A table's files with the times of their rows in the column `time`; None where these are not known. A file
        never changes: other rows are in other files. Raises MissingTableError or ReadError."""
        ...

    def arrow(self, q: Query) -> pa.Table:
        """The rows of a query. Raises MissingTableError or ReadError."""
        ...

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        """The rows of a query, which are only counted, in plain types, some at a time; text of columns of these names,
        or of fields such as steps.path, may come as dictionaries. Raises MissingTableError or ReadError, also while
        the rows are read: consume them in a function that is decorated with `again`."""
        ...


@dataclass(frozen=True)
class Through:
    """A `Reader` that reads through another one, for those that change a part of what it does."""

    reader: Reader

    @property
    def label(self) -> str:
        return self.reader.label

    @property
    def root(self) -> str:
        return self.reader.root

    def version(self, table: str) -> Version | None:
        return self.reader.version(table)

    def contract(self, table: str) -> Contract:
        return self.reader.contract(table)

    def files(self, table: str, time: str) -> Files | None:
        return self.reader.files(table, time)

    def arrow(self, q: Query) -> pa.Table:
        return self.reader.arrow(q)

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        return self.reader.coded(q, names)


def frame(table: pa.Table) -> pd.DataFrame:
    """Arrow to pandas: timestamps aware in UTC, text as Python strings."""
    rows: pd.DataFrame = plain(table).to_pandas()
    return rows


def plain(table: pa.Table) -> pa.Table:
    """The rows in types for which Arrow has every function."""
    import pyarrow as pa

    schema = pa.schema([pa.field(field.name, _plain(field.type)) for field in table.schema])
    return table.cast(schema, safe=False)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that pandas gets for an engine's type: views and large types are only storage."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    return kind
