"""Lines that a rebuild gave another value: in which columns, and how many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.table import Table

if TYPE_CHECKING:
    from tidemark.operate.rows import Rows

_COMPARED = ("string", "long", "int", "boolean", "timestamp")
# Says which rules read the line, not what they made of it.
_NOT_COMPARED = ("rules_version",)
_NEW = "new_"


@dataclass(frozen=True)
class Revalued:
    """`lines` of the `of` lines that a table has before and after a rebuild have another value of the column `what`."""

    table: str
    what: str
    lines: int
    of: int

    def __str__(self) -> str:
        return f"{self.lines:,} lines of {self.of:,} have another {self.what}"


def revalued(table: Table, before: Rows, after: Rows) -> Iterator[Revalued]:
    """The columns that differ, those of most lines first."""
    names = [
        column.name
        for column in table.columns
        if column.type in _COMPARED and column.name not in (*table.key, *_NOT_COMPARED)
    ]
    both = before.few and after.few
    of, counts = (_in_process if both else _in_executors)(table, names, before, after)
    for name in sorted(names, key=lambda name: -counts[name]):
        if counts[name]:
            yield Revalued(table.name, name, counts[name], of)


def _in_process(table: Table, names: list[str], before: Rows, after: Rows) -> tuple[int, Mapping[str, int]]:
    columns = [*table.key, *names]
    schema = pa.schema([table.arrow_schema.field(name) for name in columns])
    old, new = (rows.read().select(columns).cast(schema) for rows in (before, after))
    joined = old.join(
        new.rename_columns([*table.key, *(_NEW + name for name in names)]), list(table.key), join_type="inner"
    )
    return joined.num_rows, {name: _differing(joined[name], joined[_NEW + name]) for name in names}


def _differing(old: pa.ChunkedArray, new: pa.ChunkedArray) -> int:
    missing = pc.and_(pc.is_null(old), pc.is_null(new))
    same = pc.or_(pc.fill_null(pc.equal(old, new), False), missing)
    number: int = len(old) - (pc.sum(same).as_py() or 0)
    return number


def _in_executors(table: Table, names: list[str], before: Rows, after: Rows) -> tuple[int, Mapping[str, int]]:
    from pyspark.sql import functions as F

    old = before.frame().select(*table.key, *names)
    new = after.frame().select(*table.key, *(F.col(name).alias(_NEW + name) for name in names))
    differing = [F.count_if(~F.col(name).eqNullSafe(F.col(_NEW + name))).alias(name) for name in names]
    counts = old.join(new, list(table.key)).agg(F.count("*").alias("of"), *differing).collect()[0].asDict()
    return int(counts["of"]), {name: int(counts[name]) for name in names}
