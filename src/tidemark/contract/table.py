"""The contract of a table: its rows, key, columns, source and rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

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

from tidemark.contract.rules import Expectation, RejectingRule
from tidemark.errors import TableError
from tidemark.settings import Settings

if TYPE_CHECKING:
    from tidemark.contract.aggregation import Aggregation

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
    """One column: its name, one of the types above, its meaning, and its name in the source's rows if that
    differs."""

    name: str
    type: str
    meaning: str
    of: str = ""


@dataclass(frozen=True)
class Change:
    """The change of an upsert: complete rows to write by key, and keys to delete."""

    rows: pa.Table
    deleted: pa.Table | None = None


PROPERTY_PREFIX = "tidemark."


@dataclass(frozen=True)
class Table:
    """A Delta table that Tidemark keeps.

    `name` is `<layer>.<table>`. `kind` says how it grows: `append` tables only gain rows, `upsert`
    tables have one row per `key` that later lines may revise. `time` is the column by which files
    are skipped when a range is read or merged: in an upsert table it never changes for a key; empty
    where there is no such column. `clock` is the column that says when Tidemark wrote the row. `reads` names the
    table's source, `package` the one that declares the table, where that is another than ours.

    `lines` says which lines of the topic an append table has a row of. `made` says how the rows of an upsert table are
    made of those of `reads`, under which settings; a table that is for `now` is committed with the lines themselves,
    and begun before any other table of their batch; others may wait some seconds. The rows of a `keyed` table have
    visitor ids that are made with the home's key.

    `rejecting` are the rules that keep lines out of the table, `expects` what must hold for its rows.

    `tells` gives the settings that readers of the table need, by name; they are table properties.

    What data quality knows beyond those: `volume` is the column whose sum over an hour is compared with the days
    before, and a `quiet` table may well get no new rows for long.
    """

    name: str
    about: str
    kind: Literal["append", "upsert"]
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    time: str
    reads: str
    rejecting: tuple[RejectingRule, ...] = ()
    expects: tuple[Expectation, ...] = ()
    lines: Literal["", "all", "accepted", "rejected"] = ""
    volume: str = ""
    quiet: bool = False
    made: Callable[[Settings], Aggregation] | None = field(default=None, compare=False)
    now: bool = False
    keyed: bool = False
    clock: str = "updated_at"
    tells: Callable[[Settings], Mapping[str, object]] | None = field(default=None, compare=False)
    package: str = ""

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
    def expectations(self) -> tuple[Expectation, ...]:
        """What must hold for the table's rows: its rejecting rules, as far as it keeps their columns, and `expects`."""
        kept = [rule.expectation for rule in self.rejecting if rule.holds.columns <= set(self.column_names)]
        return (*kept, *self.expects)

    @property
    def has_row_checks(self) -> bool:
        """Whether data quality reads the table's rows. Rows of other append tables are only counted."""
        return bool(self.expectations) or self.kind == "upsert"

    @property
    def accounted(self) -> str:
        """The sum over quality.accounts that equals the number of rows; empty if there is none."""
        return "accepted + rejected" if self.lines == "all" else self.lines

    @property
    def timed(self) -> list[str]:
        """The timestamp columns."""
        return [c.name for c in self.columns if c.type == "timestamp"]

    @property
    def column_names(self) -> list[str]:
        return [c.name for c in self.columns]

    @property
    def counts(self) -> list[str]:
        """The columns that add up over rows: whole numbers outside the key that are no counts of distinct things."""
        return [
            c.name
            for c in self.columns
            if c.type == "long" and c.name not in self.key and f"{c.name}_sketch" not in self.column_names
        ]

    def told(self, settings: Settings) -> dict[str, str]:
        """What readers of the table, such as the dashboard, must know of its contract: table properties."""
        found: dict[str, object] = {
            "about": self.about,
            "key": ",".join(self.key),
            "kind": self.kind,
            "time": self.time,
            "clock": self.clock,
            "counts": ",".join(self.counts),
        }
        window = self.made(settings).window_seconds if self.made else None
        if window:
            found["window_seconds"] = window
        if self.tells:
            found |= self.tells(settings)
        return {f"{PROPERTY_PREFIX}{name}": str(value) for name, value in found.items()}

    @property
    def properties(self) -> dict[str, str]:
        """Delta table properties. Files are skipped by time only, so only timestamps need statistics."""
        return {"delta.checkpointInterval": "100", "delta.dataSkippingStatsColumns": ",".join(self.timed)}

    @property
    def schema(self) -> StructType:
        return StructType(
            [StructField(c.name, _TYPES[c.type][0], True, {"comment": c.meaning}) for c in self.columns]
        )

    @property
    def documented_schema(self) -> pa.Schema:
        """The Arrow schema with the columns' descriptions, as a new Delta table takes it."""
        fields = zip(self.arrow_schema, self.columns, strict=True)
        return pa.schema([field.with_metadata({"comment": c.meaning}) for field, c in fields])

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, _TYPES[c.type][1]) for c in self.columns])
