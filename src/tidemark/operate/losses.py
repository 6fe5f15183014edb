"""Checks that the tables have everything that their flows have committed, before they are used.

A power cut can remove the newest entry of a table's log, or leave it or a data file empty, while
the checkpoint and the other tables have the batch. Delta then reads the previous version. Only batch numbers show the
loss: those of each table, of the checkpoints, and of quality.accounts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.store import Commit
from tidemark.contract.table import Change, Table
from tidemark.errors import TableError
from tidemark.figures.reader_delta import execute
from tidemark.home import ACTIVITY, REQUESTS, Home
from tidemark.settings import Settings
from tidemark.store import deltalog
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import lock, swap
from tidemark.stream.table_state import committed_tables, recorded

REPAIR = "Stop the pipeline and run `tidemark repair`, see docs/operations.md, 'A damaged table'."
_REPAIRING = "repairing"


@dataclass(frozen=True)
class Loss:
    """A table that ends with batch `holds` (-1: none) of `flow`, of which it had batch `committed`."""

    table: Table
    flow: str
    holds: int
    committed: int

    def __str__(self) -> str:
        has = f"ends with batch {self.holds}" if self.holds >= 0 else "has no batch"
        return f"{self.table.name} {has} of flow {self.flow}, batch {self.committed} was committed to it"


def mark(settings: Settings) -> Path:
    """A file of the home that exists while its tables are being repaired."""
    return settings.home / _REPAIRING


def require_finished(settings: Settings) -> None:
    """Raises TableError if the restoring of a savepoint or a repair of the home was interrupted."""
    lock.require_restored(settings)
    _require_repaired(settings)


def _require_repaired(settings: Settings) -> None:
    if mark(settings).exists():
        raise TableError(f"the repair of {settings.home} was interrupted", "Repeat it: `tidemark repair`.")


def require_tables(home: Home, *, lost: bool = False) -> None:
    """Raises TableError if the home's pipeline has not run yet or is only half restored or, unless they may be `lost`,
    if quality.accounts or quality.sites is missing."""
    lock.require_restored(home.settings)
    # A job's home has accounts, too.
    missing = [table for table in (ACCOUNTS, SITES) if not home.store.exists(table)]
    if not missing:
        return
    if home.lakehouse.can.durable or deltalog.last_batch(home.checkpoint(REQUESTS)) < 0:
        raise TableError(
            f"no tables yet in {home.lakehouse.name}", "Run `tidemark run` or `tidemark demo` first."
        )
    if not lost:
        where = home.lakehouse.path(missing[0])
        raise TableError(f"table {missing[0].name} at {where} is lost", REPAIR)


def check_of(home: Home) -> Callable[[], None]:
    """A function that raises as `require_whole`, for the tables that the flows have run on by now, under the caller's
    locks. Raises TableError if a repair of the home was interrupted."""
    _require_repaired(home.settings)
    return partial(require_whole, home, committed_tables(home))


def require_whole(home: Home, known: Collection[str] | None = None) -> None:
    """Raises TableError with the tables and the remedy, unless they have every committed batch.

    `known` are the upsert tables that the flows have run on, by default as of now: others are new. Looks at nothing
    where a commit outlives a power cut.
    """
    lakehouse, tables = home.lakehouse, home.graph.of_flows
    if lakehouse.can.durable:
        return
    require_finished(home.settings)
    # Anew each time: files of the log may be lost while the process runs. Opening a table takes milliseconds.
    store = DeltaRsStore(lakehouse)
    lost = losses(home, store, committed_tables(home) if known is None else known)
    if lost:
        raise TableError(f"tables have lost what was committed: {'; '.join(map(str, lost))}", REPAIR)
    reverted = [table.name for table in tables if lost_swap(lakehouse, store, table)]
    if reverted:
        raise TableError(f"{', '.join(reverted)} lost what the last rebuild or forget changed", REPAIR)
    if skips_rows(home, store):
        raise TableError(
            f"the log of {home.graph.accepted.name} has lost its newest entries, and flow activity would skip the next",
            REPAIR,
        )
    for table in tables:
        missing = missing_files(lakehouse, store, table)
        if missing:
            what = f"{len(missing)} of its files are missing or cut short, such as {missing[0]}"
            raise TableError(f"table {table.name} at {lakehouse.path(table)} has lost data: {what}", REPAIR)


def losses(home: Home, store: DeltaRsStore, known: Collection[str]) -> list[Loss]:
    """The tables that lack their newest batches. New upsert tables begin with the current last
    batch. Raises TableError for a table or a checkpoint that cannot be read."""
    # The committed numbers are read before the tables, because a pipeline may be running.
    first, done = _progress(REQUESTS, home.checkpoint(REQUESTS))
    second, derived = _progress(ACTIVITY, home.checkpoint(ACTIVITY))
    lakehouse, graph = home.lakehouse, home.graph
    lost: list[Loss] = []

    def look(table: Table, flow: str, writer: str, committed: int) -> None:
        holds = store.committed(table, writer) if lakehouse.exists(table) else -1
        if holds >= committed:
            return
        if holds < 0 and table.kind == "upsert" and table.name not in known:
            store.ensure(table)
            store.upsert(table, Change(table.arrow_schema.empty_table()), Commit(writer, committed))
            return
        lost.append(Loss(table, flow, holds, committed))

    if first:
        expected = _accounted(home) if lakehouse.exists(ACCOUNTS) else {}
        for table in graph.appends:
            look(table, REQUESTS, first, expected.get(table.name, -1))
        for table in (*graph.now, SITES, ACCOUNTS):
            look(table, REQUESTS, first, done)
    if second:
        for table in graph.later:
            look(table, ACTIVITY, second, derived)
    return lost


def lost_swap(lakehouse: Lakehouse, store: DeltaRsStore, table: Table) -> bool:
    """Whether the table lacks the last rebuild or forget that changed it."""
    noted = recorded(lakehouse, table.name).swap or 0
    return noted > 0 and not (lakehouse.exists(table) and store.committed(table, swap.WRITER) >= noted)


def skips_rows(home: Home, store: DeltaRsStore) -> bool:
    """Whether the second flow's position is after the newest version of its source, which has lost some."""
    accepted, checkpoint = home.graph.accepted, home.checkpoint(ACTIVITY)
    if not home.lakehouse.exists(accepted):
        return False
    try:
        offset = deltalog.stream_offset(checkpoint)
    except (OSError, ValueError, LookupError) as error:
        raise _unreadable(ACTIVITY, checkpoint) from error
    if not offset:
        return False
    passed = int(offset["reservoirVersion"]) - (1 if int(offset["index"]) < 0 else 0)
    return passed > store.version(accepted)


def missing_files(lakehouse: Lakehouse, store: DeltaRsStore, table: Table) -> list[str]:
    """Data files of the newest version that are missing, or differ in size from the log."""
    if not lakehouse.exists(table):
        return []
    directory = Path(lakehouse.path(table))
    try:
        files = pa.table(store.newest(table).get_add_actions(flatten=True))
    except (DeltaError, OSError) as error:
        raise TableError(f"table {table.name} cannot be read: {error}", REPAIR) from error
    sizes = zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True)
    return [name for name, size in sizes if _size(directory / unquote(name)) != size]


def _progress(flow: str, checkpoint: Path) -> tuple[str, int]:
    """The flow's writer name (empty before its first run), and the last batch that is done."""
    try:
        return deltalog.writer(flow, checkpoint), deltalog.last_batch(checkpoint)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _unreadable(flow, checkpoint) from error


def _unreadable(flow: str, checkpoint: Path) -> TableError:
    return TableError(
        f"the checkpoint of flow {flow} is damaged: {checkpoint} cannot be read",
        "Restore a savepoint; or see docs/operations.md, 'A damaged checkpoint'.",
    )


def _accounted(home: Home) -> dict[str, int]:
    """By append table, the last batch of the first flow that had rows for it, according to quality.accounts."""
    appends = home.graph.appends
    names = {table.name: f"b{n}" for n, table in enumerate(appends)}
    sums = ", ".join(
        f"max(CASE WHEN {table.accounted} > 0 THEN batch_id END) AS {names[table.name]}" for table in appends
    )
    try:
        accounts = DeltaTable(home.lakehouse.path(ACCOUNTS))
        query = f"SELECT {sums} FROM accounts WHERE flow = 'requests'"
        row = execute(query, {"accounts": accounts}).read_all()
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise TableError(f"table {ACCOUNTS.name} cannot be read: {error}", REPAIR) from error
    newest = {name: pc.max(row[column]).as_py() for name, column in names.items()}
    return {name: number for name, number in newest.items() if number is not None}


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
