"""The contract of a table: what one row is, its key, its columns, where they come from, what must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidemark.errors import TableError
from tidemark.quality.rules import Rule

_TYPES: dict[str, tuple[DataType, pa.DataType]] = {
    "string": (StringType(), pa.string()),
    "int": (IntegerType(), pa.int32()),
    "long": (LongType(), pa.int64()),
    "double": (DoubleType(), pa.float64()),
    "boolean": (BooleanType(), pa.bool_()),
    "binary": (BinaryType(), pa.binary()),
    "timestamp": (TimestampType(), pa.timestamp("us", tz="UTC")),
    "strings": (ArrayType(StringType()), pa.list_(pa.string())),
    "longs": (ArrayType(LongType()), pa.list_(pa.int64())),
}


@dataclass(frozen=True)
class Column:
    """One column: its name, one of the types above, what it means, and its name in the rows that the table is
    made of, where that is another."""

    name: str
    type: str
    meaning: str
    of: str = ""


@dataclass(frozen=True)
class Change:
    """What an upsert does to a table: whole rows to write by key, and keys to delete."""

    rows: pa.Table
    deleted: pa.Table | None = None


# Columns that say when Tidemark wrote a row, whatever event time it has.
_CLOCKS = ("updated_at", "ingested_at", "rejected_at", "committed_at", "recorded_at", "run_time")

# A value in `Table.state`: the fingerprint of the key that the rows' visitor ids are made with.
VISITOR_KEY = "{visitor_key}"

# (rows in the table that the batch may touch, the batch's own rows) -> change
Combine = Callable[[pa.Table, pa.Table], Change]


@dataclass(frozen=True)
class Table:
    """A Delta table that Tidemark keeps.

    `name` is `<layer>.<table>`. `kind` says how it grows: `append` tables only gain rows, `upsert`
    tables have one row per `key` that later lines may revise. `time` is the column by which files
    are skipped when a range is read or merged: in an upsert table it never changes for a key; empty
    where there is no such column. `reads` names the table's source.

    `state` says, by name, what makes rows belong together beyond the key: window, aggregates. Values may name
    settings, as in `{settings.late_seconds}`, or be `VISITOR_KEY`. `tidemark.flow.fit` checks it.

    What data quality knows beyond `rules`: `accounted` is the sum over quality.accounts that the table's
    row count equals, `volume` the column whose sum over an hour is compared with the days before, and a
    `quiet` table may well get no new rows for long.
    """

    name: str
    about: str
    kind: Literal["append", "upsert"]
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    time: str
    reads: str
    rules: tuple[Rule, ...] = ()
    accounted: str = ""
    volume: str = ""
    quiet: bool = False
    combine: Combine | None = field(default=None, compare=False)
    state: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        missing = {*self.key, *([self.time] if self.time else [])} - {c.name for c in self.columns}
        if missing:
            raise TableError(f"table {self.name} lacks its own columns {sorted(missing)}")

    @property
    def layer(self) -> str:
        return self.name.split(".")[0]

    @property
    def short_name(self) -> str:
        return self.name.split(".")[1]

    @property
    def clock(self) -> str:
        """The column that says when Tidemark wrote the row."""
        return next(name for name in _CLOCKS if name in self.column_names)

    @property
    def column_names(self) -> list[str]:
        return [c.name for c in self.columns]

    @property
    def properties(self) -> dict[str, str]:
        """Delta table properties. Files are skipped by time only, so only times need statistics."""
        times = ",".join(c.name for c in self.columns if c.type == "timestamp")
        return {"delta.checkpointInterval": "100", "delta.dataSkippingStatsColumns": times}

    @property
    def schema(self) -> StructType:
        return StructType(
            [StructField(c.name, _TYPES[c.type][0], True, {"comment": c.meaning}) for c in self.columns]
        )

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, _TYPES[c.type][1]) for c in self.columns])
