"""quality.access: what people, keys and shares have done. Rows are only ever appended."""

from __future__ import annotations

import atexit
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Literal

from tidemark.access.asking import Asking
from tidemark.access.limits import Attempts
from tidemark.figures.reader_warehouse import Connection, Execute, in_schema
from tidemark.figures.scan import files_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from tidemark.figures.rows import Rows

log = logging.getLogger("tidemark.access")

TABLE = "quality/access"
What = Literal[
    "login",
    "failed login",
    "logout",
    "person added",
    "person removed",
    "key made",
    "key revoked",
    "share made",
    "share revoked",
    "share opened",
    "raw lines opened",
    "download",
    "definition changed",
    "note changed",
    "forget",
    "privacy changed",
    "refused",
]
# Names, types and meanings of the table's columns.
COLUMNS = (
    ("time", "timestamp", "When it happened."),
    ("who", "string", "Person, key or share; empty without login, and for a command on the machine."),
    ("role", "string", "Their role; empty if they have none."),
    ("address", "string", "Address of the client; empty for a command on the machine."),
    ("what", "string", "What was done."),
    ("object", "string", "What it was done to."),
    ("outcome", "string", "done or refused."),
)
ABOUT = (
    "One row per login, change of keys, shares, definitions and privacy settings, look at raw lines, download "
    "and refusal."
)
MOST_CHARACTERS = 300
MOST_SHOWN = 200
# In a minute, the same refusal is recorded once, and so many of a person and an address, so that no client can fill the
# disk.
_MOST_REFUSALS = 100
# Streamlit's page asks for a file twice per click: to see whether it is there, and to save it.
_CLICK_SECONDS = 5.0
_MOST_WAITING = 10_000
_INTERVAL_SECONDS = 1.0


@dataclass
class Audit:
    """The table at a path or URL, or of a catalog, to which `insert` adds rows. Rows wait a second for others.
    `options` are delta-rs' storage options for a URL; without them it finds them in the environment."""

    path: str
    insert: Callable[[Sequence[tuple[Any, ...]]], None] | None = None
    options: dict[str, str] | None = field(default=None, repr=False)
    _waiting: Queue[tuple[Any, ...]] = field(default_factory=lambda: Queue(_MOST_WAITING))
    _refusals: Attempts = field(default_factory=partial(Attempts, most=1))
    _refused: Attempts = field(default_factory=partial(Attempts, most=_MOST_REFUSALS))
    _clicks: Attempts = field(default_factory=partial(Attempts, most=1, seconds=_CLICK_SECONDS))
    _lock: Lock = field(default_factory=Lock)
    _writing: Lock = field(default_factory=Lock)
    _thread: Thread | None = None

    @classmethod
    def of_home(cls, home: Path, environment: Mapping[str, str] | None = None) -> Audit:
        """That of a home, or of the tables elsewhere that an environment names."""
        environment = os.environ if environment is None else environment
        if environment.get("TIDEMARK_CATALOG"):
            return cls("", partial(_insert, Connection(environment), in_schema(environment, TABLE)))
        location = environment.get("TIDEMARK_TABLES_LOCATION", "").rstrip("/").replace("s3a://", "s3://")
        return cls(f"{location or home / 'tables'}/{TABLE}")

    def record(
        self,
        asking: Asking | None,
        what: What,
        object: str = "",
        outcome: str = "done",
        *,
        who: str = "",
        address: str = "",
        limited: bool = False,
        clicked: str = "",
    ) -> None:
        """Appends a row soon. `who` is the name that somebody claims who is not known, at this `address`. `limited`:
        the caller limits how often it happens, so that each time is recorded. `clicked`: the address of a file that
        a page asks for several times per click, which is one row."""
        role = ""
        if asking:
            who, role, address = asking.name, asking.right.role, asking.address
        event = (who, role, address, what, _short(object), outcome)
        refusal = outcome == "refused" and not limited
        if refusal and (self._refusals.begin(event) or self._refused.begin((who, address))):
            return
        if clicked and self._clicks.begin((*event, clicked)):
            return
        log.info("%s: %s %s (%s)", _short(who), what, _short(object), outcome)
        try:
            self._waiting.put_nowait((datetime.now(UTC), *map(_short, event)))
        except Full:
            log.error("too many events wait for %s", TABLE)
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._keep_writing, daemon=True, name="audit")
                self._thread.start()
                atexit.register(self.write)

    def write(self) -> None:
        """Appends the rows that wait, after those that another thread is writing."""
        with self._writing:
            self._write()

    def _write(self) -> None:
        rows = []
        try:
            while True:
                rows.append(self._waiting.get_nowait())
        except Empty:
            pass
        if rows:
            try:
                if self.insert:
                    self.insert(rows)
                else:
                    _append(self.path, rows, self.options)
            except Exception as error:  # the server must go on, and the log has the events
                log.error("%s cannot be written: %s", self.path or TABLE, str(error).splitlines()[:1])

    def rows(self) -> pa.Table | None:
        """All rows; None without a table."""
        from deltalake import DeltaTable

        if not self.path or not DeltaTable.is_deltatable(self.path, storage_options=self.options):
            return None
        table = DeltaTable(self.path, storage_options=self.options)
        return table.to_pyarrow_table(filesystem=files_of(table))

    def put_back(self, rows: pa.Table) -> None:
        """Appends those of the rows that are newer than the table's newest."""
        import pyarrow.compute as pc
        from deltalake import write_deltalake

        there = self.rows()
        newest = None if there is None else pc.max(there["time"]).as_py()
        if newest is not None:
            rows = rows.filter(pc.greater(rows["time"], newest))
        if rows.num_rows:
            write_deltalake(self.path, rows, mode="append", description=ABOUT, storage_options=self.options)

    def _keep_writing(self) -> None:
        while True:
            time.sleep(_INTERVAL_SECONDS)
            self.write()


@cache
def audit_of_home(home: Path) -> Audit:
    """The one of a home in this process, so that the end of the server writes the rows of its pages, too."""
    return Audit.of_home(home)


def newest(rows: Rows) -> pd.DataFrame:
    """The newest MOST_SHOWN rows, newest first, with the columns COLUMNS."""
    from tidemark.figures.query import query
    from tidemark.figures.rows import if_any

    return if_any(rows, query(TABLE, [name for name, *_ in COLUMNS], order_by=["-time"], limit=MOST_SHOWN))


def by_the_machine(what: What, object: str) -> pa.Table:
    """A row for a command on the machine, which happens now."""
    return _table([(datetime.now(UTC), "", "", "", what, _short(object), "done")])


def insertion(name: str) -> str:
    """The SQL statement that adds the rows of the parameter `rows`, a JSON array of objects, to the table of this
    name."""
    columns = ", ".join(column for column, *_ in COLUMNS)
    kinds = ", ".join(f"{column}: {kind}" for column, kind, _ in COLUMNS)
    rows = f"SELECT inline(from_json(:rows, 'array<struct<{kinds}>>'))"
    return f"INSERT INTO {name} ({columns}) SELECT {columns} FROM ({rows})"


def as_json(rows: Sequence[tuple[Any, ...]]) -> str:
    """Rows as the parameter of `insertion`."""
    names = [column for column, *_ in COLUMNS]
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows], default=datetime.isoformat)


def _insert(execute: Execute, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    execute(insertion(name), {"rows": as_json(rows)})


def _append(path: str, rows: Sequence[tuple[Any, ...]], options: dict[str, str] | None) -> None:
    from deltalake import write_deltalake

    if "://" not in path:
        Path(path).mkdir(parents=True, exist_ok=True)
    write_deltalake(path, _table(rows), mode="append", description=ABOUT, storage_options=options)


def _table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    import pyarrow as pa

    kinds = {"timestamp": pa.timestamp("us", "UTC"), "string": pa.string()}
    schema = pa.schema(
        [pa.field(name, kinds[kind], metadata={"comment": about}) for name, kind, about in COLUMNS]
    )
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def _short(text: str) -> str:
    return text[:MOST_CHARACTERS]
