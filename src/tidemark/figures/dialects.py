"""How each engine writes what differs: quotes, time bins, values and matches of text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import Any


class Dialect(ABC):
    """The differences between the engines. Every text is SQL, except identifiers as arguments; a value becomes SQL: a
    literal, or a marker of a parameter. The methods here hold for every engine that does not override them."""

    quote = '"'

    def name(self, identifier: str) -> str:
        return self.quote + identifier.replace(self.quote, 2 * self.quote) + self.quote

    @abstractmethod
    def bin(self, column: str, seconds: int) -> str:
        """The start of the time bin that a time is in."""

    def value(self, value: Any) -> str:
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int | float):
            return repr(value)
        if isinstance(value, datetime):
            return f"TIMESTAMP '{value.astimezone(UTC).isoformat(timespec='microseconds')}'"
        return "'" + str(value).replace("'", "''") + "'"

    def text(self, column: str) -> str:
        return f"CAST({column} AS VARCHAR)"

    def contains(self, column: str, part: str) -> str:
        return f"contains({column}, {part})"

    def starts_with(self, column: str, start: str) -> str:
        return f"starts_with({column}, {start})"

    def matches(self, column: str, expression: str) -> str:
        return f"regexp_like({column}, {expression})"

    def later(self, column: str, seconds: int) -> str:
        return f"{column} + INTERVAL '{seconds} seconds'"

    def joined(self, column: str, separator: str) -> str:
        return f"array_to_string({column}, {separator})"

    def each(self, column: str) -> str:
        return f"unnest({column})"


class DataFusion(Dialect):
    """DataFusion as `deltalake` brings it: values become literals, as it takes no parameters."""

    def bin(self, column: str, seconds: int) -> str:
        return f"date_bin(INTERVAL '{seconds} seconds', {column})"


class DuckDB(Dialect):
    """DuckDB, for a reader who wants to run a figure's query elsewhere."""

    def bin(self, column: str, seconds: int) -> str:
        width = seconds * 1_000_000
        return f"make_timestamptz(epoch_us({column}) // {width} * {width})"

    def matches(self, column: str, expression: str) -> str:
        return f"regexp_matches({column}, {expression})"

    def value(self, value: Any) -> str:
        text = super().value(value)
        return text.replace("TIMESTAMP", "TIMESTAMPTZ", 1) if isinstance(value, datetime) else text


class Databricks(Dialect):
    """Databricks (and Spark) SQL: values become named parameters, collected in `parameters`."""

    quote = "`"

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}

    def bin(self, column: str, seconds: int) -> str:
        width = seconds * 1_000_000
        return f"timestamp_micros((unix_micros({column}) - pmod(unix_micros({column}), {width})))"

    def value(self, value: Any) -> str:
        marker = f"p{len(self.parameters)}"
        self.parameters[marker] = value
        return f":{marker}"

    def text(self, column: str) -> str:
        return f"CAST({column} AS STRING)"

    def starts_with(self, column: str, start: str) -> str:
        return f"startswith({column}, {start})"

    def later(self, column: str, seconds: int) -> str:
        return f"timestampadd(SECOND, {seconds}, {column})"

    def joined(self, column: str, separator: str) -> str:
        return f"array_join({column}, {separator})"

    def each(self, column: str) -> str:
        return f"explode({column})"


class SparkSql(Databricks):
    """Spark SQL with Delta's extension, whose parser binds no parameters: values become literals."""

    def value(self, value: Any) -> str:
        if isinstance(value, datetime):
            return f"TIMESTAMP '{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"
        if isinstance(value, str):
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        return str(value)
