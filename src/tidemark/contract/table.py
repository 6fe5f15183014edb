"""The contract of a table: its rows, key, columns, source and rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from tidemark.contract.rules import Expectation, RejectingRule
from tidemark.errors import TableError
from tidemark.settings import Settings
from tidemark.settings.sections import MeaningSettings

if TYPE_CHECKING:
    from tidemark.contract.aggregation import Aggregation

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "strings": pa.list_(pa.string()),
    "longs": pa.list_(pa.int64()),
    "steps": pa.list_(pa.struct([("time", pa.timestamp("us", tz="UTC")), ("path", pa.string())])),
    "counts": pa.map_(pa.int32(), pa.int64()),
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


# Each commit reads again those since the last checkpoint.
CHECKPOINTS = {"delta.checkpointInterval": "50"}
PROPERTY_PREFIX = "tidemark."


@dataclass(frozen=True)
class Table:
    """A Delta table of Tidemark.

    `name` is `<layer>.<table>`. `kind`: `append` tables only gain rows; `upsert` tables have one row per `key`, which
    later lines may revise. `time` is the column by which files are skipped when a range is read or merged. In an upsert
    table it never changes for a key. It is empty if there is no such column. `clock` is the column with the time at
    which Tidemark wrote the row. `reads` names the table's source, `package` the declaring package if it is another.

    `lines`: the lines of the topic of which an append table has a row. `aggregation` returns how the rows of an upsert
    table are made of those of `reads`. A table with `now` is committed together with the lines, and started
    before any other table of the batch; others may follow some seconds later. A table that `follows` is made of a table
    whose rows change, and takes the changes between two versions of it. The rows of a `keyed` table have visitor ids,
    which depend on the home's key.

    `rejecting` are the rules that reject lines, `expects` the expectations for the table's rows.

    `reader_settings` returns the settings that readers of the table need, by name. They become table properties.

    For data quality: `volume` is the column whose sum over an hour is compared with previous days, `clients` that of
    addresses, of which none should be a proxy's. A `quiet` table may get no new rows for a long time.
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
    clients: str = ""
    quiet: bool = False
    aggregation: Callable[[MeaningSettings], Aggregation] | None = field(default=None, compare=False)
    now: bool = False
    follows: bool = False
    keyed: bool = False
    clock: str = "updated_at"
    reader_settings: Callable[[Settings], Mapping[str, object]] | None = field(default=None, compare=False)
    package: str = ""

    def __post_init__(self) -> None:
        missing = {*self.key, *([self.time] if self.time else [])} - {c.name for c in self.columns}
        if missing:
            raise TableError(f"table {self.name} lacks its own columns {sorted(missing)}")

    @property
    def plain(self) -> Table:
        """The table without its functions, which can be sent to another process."""
        facts = {each.name: getattr(self, each.name) for each in fields(Table)}
        return Table(**{**facts, "aggregation": None, "reader_settings": None})

    @property
    def layer(self) -> str:
        return self.name.split(".")[0]

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Expectations for the table's rows: its rejecting rules whose columns it has, and `expects`."""
        names = set(self.column_names)
        kept = [rule for rule in self.rejecting if rule.expected and rule.holds.columns <= names]
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
        """The columns that can be summed over rows: integers outside the key, except counts of distinct values."""
        return [
            c.name
            for c in self.columns
            if c.type == "long" and c.name not in self.key and f"{c.name}_sketch" not in self.column_names
        ]

    def reader_properties(self, settings: Settings) -> dict[str, str]:
        """The part of the contract for readers of the table, such as the dashboard, as table properties."""
        properties: dict[str, object] = {
            "about": self.about,
            "key": ",".join(self.key),
            "kind": self.kind,
            "time": self.time,
            "clock": self.clock,
            "counts": ",".join(self.counts),
        }
        window = self.aggregation(settings.meaning).window_seconds if self.aggregation else None
        if window:
            properties["window_seconds"] = window
        if self.reader_settings:
            properties |= self.reader_settings(settings)
        return {f"{PROPERTY_PREFIX}{name}": str(value) for name, value in properties.items()}

    @property
    def properties(self) -> dict[str, str]:
        """Delta table properties. Files are skipped by time only, so only timestamps need statistics."""
        return {**CHECKPOINTS, "delta.dataSkippingStatsColumns": ",".join(self.timed)}

    @property
    def documented_schema(self) -> pa.Schema:
        """The Arrow schema with the columns' descriptions, for a new Delta table."""
        fields = zip(self.arrow_schema, self.columns, strict=True)
        return pa.schema([field.with_metadata({"comment": c.meaning}) for field, c in fields])

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, _TYPES[c.type]) for c in self.columns])
