"""Reads tables by Spark SQL, such as `<catalog>.<schema>.<layer>_<table>` through a Databricks SQL warehouse."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tidemark.figures.dialects import Databricks
from tidemark.figures.query import Query
from tidemark.figures.reader import (
    Contract,
    MissingTableError,
    ReadError,
    Version,
    plain,
    properties_of,
    unreadable,
)
from tidemark.figures.render import render

if TYPE_CHECKING:
    import pyarrow as pa

# Asking a warehouse for a version costs a round trip; panels that refresh together share one answer.
VERSION_SECONDS = 2.0

# Runs a statement with its named parameters and returns the rows.
Execute = Callable[[str, dict[str, Any]], "pa.Table"]


class SqlReader:
    """Tables that Spark SQL knows by the names that `named` gives; `execute` is the connection. A `dialect` is made for
    each statement."""

    def __init__(
        self,
        label: str,
        named: Callable[[str], str],
        execute: Execute,
        dialect: Callable[[], Databricks] = Databricks,
    ) -> None:
        self.label = label
        self.root = ""
        self._name = named
        self._execute = execute
        self._dialect = dialect
        self._versions: dict[str, tuple[float, Version | None]] = {}

    def version(self, table: str) -> Version | None:
        known = self._versions.get(table)
        if known is not None and time.monotonic() - known[0] < VERSION_SECONDS:
            return known[1]
        try:
            rows = self._run(table, f"DESCRIBE HISTORY {self._name(table)} LIMIT 1", {}).to_pylist()
            version = Version(int(rows[0]["version"]), _utc(rows[0]["timestamp"]))
        except MissingTableError:
            version = None
        self._versions[table] = (time.monotonic(), version)
        return version

    def contract(self, table: str) -> Contract:
        name = self._name(table)
        properties = self._run(table, f"SHOW TBLPROPERTIES {name}", {}).to_pylist()
        columns = self._run(table, f"DESCRIBE TABLE {name}", {}).to_pylist()
        return Contract(
            properties_of({row["key"]: row["value"] for row in properties}),
            {row["col_name"]: row["comment"] or "" for row in columns},
        )

    def files(self, table: str, time: str) -> None:
        return None

    def arrow(self, q: Query) -> pa.Table:
        dialect = self._dialect()
        statement = render(q, self._name, dialect)
        return self._run(q.table, statement, dialect.parameters)

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        return plain(self.arrow(q)).to_reader()

    def _run(self, table: str, statement: str, parameters: dict[str, Any]) -> pa.Table:
        try:
            return self._execute(statement, parameters)
        except Exception as error:
            if "TABLE_OR_VIEW_NOT_FOUND" in str(error):
                raise MissingTableError(f"{table} does not exist yet") from error
            line = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
            raise unreadable(table, line) from error


def of_schema(catalog: str, schema: str, execute: Execute) -> SqlReader:
    """Tables of one Unity Catalog schema."""
    return SqlReader(f"{catalog}.{schema}", partial(_named, catalog, schema), execute)


def in_schema(environment: Mapping[str, str], table: str) -> str:
    """The quoted name of a table in the schema of TIDEMARK_CATALOG and TIDEMARK_SCHEMA."""
    return _named(*_schema(environment), table)


def _named(catalog: str, schema: str, table: str) -> str:
    quoted = Databricks().name
    return ".".join(quoted(part) for part in (catalog, schema, table.replace("/", "_")))


def _schema(environment: Mapping[str, str]) -> tuple[str, str]:
    return environment["TIDEMARK_CATALOG"], environment.get("TIDEMARK_SCHEMA") or "tidemark"


def open_warehouse(environment: Mapping[str, str]) -> SqlReader:
    """A reader for TIDEMARK_CATALOG and TIDEMARK_SCHEMA (default `tidemark`).

    Connects to DATABRICKS_HOST and DATABRICKS_HTTP_PATH or DATABRICKS_WAREHOUSE_ID, with DATABRICKS_TOKEN
    or, as in a Databricks App, with the service principal that the SDK finds in the environment.
    """
    return of_schema(*_schema(environment), Connection(environment))


class Connection:
    """Runs statements on the warehouse, connecting on first use and again after a lost session."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._connection: Any = None
        self._lock = threading.Lock()

    def __call__(self, statement: str, parameters: dict[str, Any]) -> pa.Table:
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
            try:
                with self._connection.cursor() as cursor:
                    cursor.execute(statement, parameters or None)
                    return cursor.fetchall_arrow()
            except Exception:
                # A session ends after idle time; the next panel refresh starts a new one.
                self._connection = None
                raise

    def _connect(self) -> Any:
        try:
            from databricks import sql
        except ImportError as error:
            raise ReadError("databricks-sql-connector is not installed") from error
        environment = self._environment
        host = environment.get("DATABRICKS_SERVER_HOSTNAME") or environment.get("DATABRICKS_HOST", "")
        warehouse = environment.get("DATABRICKS_WAREHOUSE_ID", "")
        path = environment.get("DATABRICKS_HTTP_PATH") or (
            f"/sql/1.0/warehouses/{warehouse}" if warehouse else ""
        )
        if not host or not path:
            raise ReadError("set DATABRICKS_HOST and DATABRICKS_WAREHOUSE_ID (or DATABRICKS_HTTP_PATH)")
        credentials: dict[str, Any] = {"access_token": environment.get("DATABRICKS_TOKEN")}
        if not credentials["access_token"]:
            from databricks.sdk.core import Config

            config = Config()
            credentials = {"credentials_provider": lambda: config.authenticate}
        name, _, port = host.removeprefix("https://").rstrip("/").partition(":")
        return sql.connect(
            server_hostname=name,
            _port=int(port or 443),
            http_path=path,
            session_configuration={"TIMEZONE": "UTC"},
            # Who looks at what is nobody else's business.
            enable_telemetry=False,
            **credentials,
        )


def _utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
