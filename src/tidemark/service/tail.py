"""New rows of silver.requests and silver.rejected as they are committed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tidemark.figures import conditions, silver
from tidemark.figures.query import Where, query
from tidemark.figures.reader import Reader, Version, plain
from tidemark.figures.selection import Filter, Selection

REJECTED = "silver/rejected"
COLUMNS = (
    "event_time", "ingested_at", "site", "host", "client_ip", "method", "path", "query", "status", "bytes",
    "duration_us", "country", "network", "device", "browser", "os", "bot_name", "bot_kind", "bot_verified", "channel",
    "source",
    "referrer", "user_agent", "visitor_id",
)  # fmt: skip
REJECTED_COLUMNS = ("rejected_at", "site", "value", "reasons")
# The rate is of so many seconds.
_RATE_SECONDS = 10.0


@dataclass
class Tail:
    """Follows the tables from `since` on. `site` None: all sites. With filters, no rejected lines."""

    reader: Reader
    site: str | None = None
    filters: tuple[Filter, ...] = ()
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    _seen: dict[str, tuple[Version | None, datetime]] = field(default_factory=dict)
    _counts: deque[tuple[float, int]] = field(default_factory=deque)

    def new(self, now: float) -> list[dict[str, Any]]:
        """The rows since the last call, by their time: those of silver.requests with the columns COLUMNS, those of
        silver.rejected with REJECTED_COLUMNS. `now` (monotonic) is for the rate. Raises ReadError."""
        where = conditions.of_lines(Selection(self.site, filters=self.filters))
        found = self._of(silver.REQUESTS, COLUMNS, "ingested_at", where)
        if not self.filters:
            of_site = conditions.of_site(Selection(self.site))
            found += self._of(REJECTED, REJECTED_COLUMNS, "rejected_at", of_site)
        self._counts.append((now, len(found)))
        while now - self._counts[0][0] > _RATE_SECONDS:
            self._counts.popleft()
        return found

    @property
    def rate(self) -> float:
        """Rows a second in the last seconds."""
        return sum(number for _, number in list(self._counts)[1:]) / max(
            1.0, self._counts[-1][0] - self._counts[0][0]
        )

    def _of(
        self, table: str, columns: tuple[str, ...], clock: str, where: tuple[Any, ...]
    ) -> list[dict[str, Any]]:
        version, since = self._seen.get(table, (None, self.since))
        newest = self.reader.version(table)
        if newest is None or newest == version:
            return []
        kept = (*where, Where(clock, ">", since))
        asked = query(table, columns, kept, order_by=[clock, columns[0]])
        found: list[dict[str, Any]] = plain(self.reader.arrow(asked)).to_pylist()
        self._seen[table] = newest, found[-1][clock] if found else since
        return found
