"""The schema of a declared table as Spark has it."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from tidemark.contract.table import Table


def spark_schema(table: Table) -> StructType:
    """The schema of a table's rows, with the columns' descriptions."""
    columns = zip(table.arrow_schema, table.columns, strict=True)
    return StructType(
        [
            StructField(arrow.name, from_arrow_type(arrow.type), True, {"comment": column.meaning})
            for arrow, column in columns
        ]
    )
