"""quality.tables: the tables of the home, and how much of its history each of them has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tidemark.contract.quality_tables import INVENTORY
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Change
from tidemark.home import Home
from tidemark.stream.lock import appending

_WRITER = "inventory"


def announce(home: Home, incomplete: Sequence[str]) -> None:
    """Records the tables of this installation, and which of them are incomplete as of now: those named, no others."""
    known = _known(home.store)
    rows = []
    for table in home.tables:
        was = known.get(table.name, {})
        complete = table.name not in incomplete
        begun = not complete and was.get("complete") is False
        now = {
            "table": table.name,
            "package": table.package,
            "complete": complete,
            "done": was["done"] if begun else None,
            "total": was["total"] if begun else None,
        }
        if any(was.get(name, ()) != value for name, value in now.items()):
            rows.append(now)
    gone = sorted(set(known) - set(home.graph.names))
    if rows or gone:
        _write(home, rows, gone)


def record(home: Home, names: Sequence[str], done: int, total: int | None) -> None:
    """Records how many parts of the tables' history are done; `total` is None before that is known."""
    known = _known(home.store)
    rows = [{**known[name], "done": done, "total": total} for name in names]
    _write(home, rows, [])


def _known(store: Store) -> dict[str, dict[str, Any]]:
    return {row["table"]: row for row in store.read(INVENTORY).to_pylist()}


def _write(home: Home, rows: list[dict[str, Any]], gone: Sequence[str]) -> None:
    now = datetime.now(UTC)
    written = pa.Table.from_pylist([{**row, "updated_at": now} for row in rows], INVENTORY.arrow_schema)
    deleted = pa.table({"table": pa.array(gone, pa.string())})
    with appending(home.settings):
        commit = Commit(_WRITER, home.store.committed(INVENTORY, _WRITER) + 1)
        home.store.upsert(INVENTORY, Change(written, deleted), commit)
