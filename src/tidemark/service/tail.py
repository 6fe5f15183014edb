"""New rows of silver.requests and silver.rejected as they are committed."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.groups import semi_join
from tidemark.figures import conditions, silver
from tidemark.figures.query import Condition, Where, query
from tidemark.figures.reader import Reader, plain
from tidemark.figures.selection import Filter, Selection
from tidemark.store import deltalog
from tidemark.store.lakehouse import Lakehouse, require_files
from tidemark.store.parquet import rows_of_file
from tidemark.stream.swap import WRITER

log = logging.getLogger("tidemark.tail")

REJECTED = "silver/rejected"
COLUMNS = (
    "event_time", "ingested_at", "site", "host", "client_ip", "method", "path", "query", "status", "bytes",
    "duration_us", "country", "network", "device", "browser", "os", "bot_name", "bot_kind", "bot_verified", "channel",
    "source",
    "referrer", "user_agent", "visitor_id",
)  # fmt: skip
REJECTED_COLUMNS = ("rejected_at", "site", "value", "reasons")
# The key of both tables.
_KEY = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
_CLOCK = pa.timestamp("us", "UTC")
# The rate is the mean over this many seconds.
_RATE_SECONDS = 10.0


@dataclass
class Tail:
    """Follows the tables from their present versions on. `site` None: all sites. With filters, no rejected lines.

    A row is new if a commit added it, except as part of a rewritten table. Raises TableError where the tables' files
    cannot be reached.
    """

    reader: Reader
    lakehouse: Lakehouse
    site: str | None = None
    filters: tuple[Filter, ...] = ()
    _versions: dict[str, int] = field(init=False)
    _counts: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        require_files(self.lakehouse, "`tail`")
        self._versions = {table: self._version(table) for table in (silver.REQUESTS, REJECTED)}

    def new(self, now: float) -> list[dict[str, Any]]:
        """The rows since the last call, by their time: those of silver.requests with the columns COLUMNS, those of
        silver.rejected with REJECTED_COLUMNS. `now` (monotonic) is for the rate. Raises ReadError."""
        where = conditions.of_lines(Selection(self.site, filters=self.filters))
        rows = self._since(silver.REQUESTS, COLUMNS, "ingested_at", where)
        if not self.filters:
            of_site = conditions.of_site(Selection(self.site))
            rows += self._since(REJECTED, REJECTED_COLUMNS, "rejected_at", of_site)
        self._counts.append((now, len(rows)))
        while now - self._counts[0][0] > _RATE_SECONDS:
            self._counts.popleft()
        return rows

    @property
    def rate(self) -> float:
        """Rows a second in the last seconds."""
        return sum(number for _, number in list(self._counts)[1:]) / max(
            1.0, self._counts[-1][0] - self._counts[0][0]
        )

    def _version(self, table: str) -> int:
        """The newest version, -1 without the table."""
        version = self.reader.version(table)
        return -1 if version is None else version.number

    def _since(
        self, table: str, columns: tuple[str, ...], clock: str, where: tuple[Condition, ...]
    ) -> list[dict[str, Any]]:
        """The rows that commits after the last version have added. Of a table that was set back to an earlier version,
        such as by a savepoint, none are new."""
        last, self._versions[table] = self._versions[table], self._version(table)
        added = self._added(table, clock, last + 1, self._versions[table])
        if not added.num_rows:
            return []
        bounds = pc.min_max(added[clock])
        within = (Where(clock, ">=", bounds["min"].as_py()), Where(clock, "<=", bounds["max"].as_py()))
        wanted = query(table, (*columns, *_KEY), (*where, *within), order_by=[clock, columns[0]])
        rows = semi_join(plain(self.reader.arrow(wanted)), added, list(_KEY))
        newest: list[dict[str, Any]] = rows.select(columns).to_pylist()
        return newest

    def _added(self, table: str, clock: str, first: int, last: int) -> pa.Table:
        """Key and clock of the rows that commits have added."""
        name, files = table.replace("/", "."), self.lakehouse.files
        entries = self.lakehouse.log(name)
        schema = pa.schema([*_KEY.items(), (clock, _CLOCK)])
        parts = [schema.empty_table()]
        for version in range(first, last + 1):
            try:
                commit = deltalog.actions(entries, version)
                # A rebuild adds all rows again.
                if any(action.get("txn", {}).get("appId") == WRITER for action in commit):
                    continue
                for path in deltalog.added(commit):
                    parts += rows_of_file(files.system, f"{entries.table}/{unquote(path)}", schema)
            except FileNotFoundError:
                log.warning(
                    "rows of version %d of %s are not shown: the version has been removed", version, name
                )
        return pa.concat_tables(parts)
