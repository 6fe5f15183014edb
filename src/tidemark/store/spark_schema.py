"""The schema of a declared table as Spark has it."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidemark.contract.table import Table

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "strings": ArrayType(StringType()),
    "longs": ArrayType(LongType()),
    "steps": ArrayType(StructType([StructField("time", TimestampType()), StructField("path", StringType())])),
    "counts": MapType(IntegerType(), LongType()),
}


def spark_schema(table: Table) -> StructType:
    """The schema of a table's rows, with the columns' descriptions."""
    return StructType(
        [StructField(c.name, _TYPES[c.type], True, {"comment": c.meaning}) for c in table.columns]
    )
