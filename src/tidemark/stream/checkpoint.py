"""Checks that a checkpoint and the tables belong together, before a flow continues from it.

Spark trusts its checkpoint, and a table skips a batch whose number it has. So a checkpoint that was lost,
truncated or restored without its tables, or a table restored without its checkpoint, would silently lose
rows or count them twice. This check makes it one error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.errors import TableError
from tidemark.store import deltalog

_REMEDY = (
    "Restore a savepoint, or a backup of tables and checkpoints together;"
    " or see docs/operations.md, 'A damaged checkpoint'."
)


def require_sound(
    flow: str,
    checkpoint: Path,
    store: Store,
    tables: Sequence[Table],
    commits: Sequence[Table],
) -> None:
    """Raises TableError unless `flow` can continue from its checkpoint exactly where `tables` are. `commits` are those
    that every batch commits.

    Valid states: no checkpoint and no table that the flow has written; or a checkpoint whose newest batches can be read
    and whose numbers match those in the tables. A planned batch that is not done is valid: it runs again.
    """
    planned, done = deltalog.last_batch(checkpoint, "offsets"), deltalog.last_batch(checkpoint)
    writer = _writer(flow, checkpoint)
    if not writer:
        if planned >= 0 or done >= 0:
            raise _damaged(flow, f"{checkpoint / 'metadata'} is missing")
        written = next((table.name for table in tables if store.has_batches_of(table, flow)), None)
        if written:
            raise TableError(
                f"flow {flow} has no checkpoint at {checkpoint}, but {written} holds its batches", _REMEDY
            )
        return
    if done > planned:
        raise _damaged(flow, f"{checkpoint / 'offsets' / str(done)} is missing")
    for number in range(max(planned - 1, 0), planned + 1):
        _require_readable(flow, checkpoint / "offsets" / str(number), lines=3)
    if done >= 0:
        _require_readable(flow, checkpoint / "commits" / str(done), lines=2)
    for table in tables:
        number = store.committed(table, writer)
        if number > planned:
            raise TableError(
                f"table {table.name} holds batch {number} of flow {flow}, of which the checkpoint"
                f" {checkpoint} knows {planned} at most",
                _REMEDY,
            )
        if table in commits and 0 <= number < done:
            raise TableError(
                f"table {table.name} ends with batch {number} of flow {flow}, whose checkpoint has {done} done",
                "Run `tidemark repair`, or restore a savepoint of a job's home; or see docs/operations.md,"
                " 'A damaged checkpoint'.",
            )


def clear_unfinished(checkpoint: Path) -> None:
    """Removes unfinished files of a killed process from the logs. Nobody reads them, but Spark refuses a checkpoint
    whose offset log has such a file and no finished one. No other process may use the checkpoint."""
    for log in ("offsets", "commits"):
        for unfinished in (checkpoint / log).glob(".*.tmp"):
            unfinished.unlink(missing_ok=True)


def _writer(flow: str, checkpoint: Path) -> str:
    try:
        return deltalog.writer(flow, checkpoint)
    except (ValueError, LookupError, TypeError) as error:
        raise _damaged(flow, f"{checkpoint / 'metadata'} cannot be read") from error


def _require_readable(flow: str, file: Path, lines: int) -> None:
    """Raises if a file of Spark's logs is not a version followed by one JSON value per line."""
    try:
        version, *values = file.read_text(encoding="utf-8").splitlines()
        if not version.startswith("v") or len(values) < lines - 1:
            raise ValueError("cut short")
        for value in values:
            json.loads(value)
    except FileNotFoundError:
        raise _damaged(flow, f"{file} is missing") from None
    except (ValueError, OSError) as error:
        raise _damaged(flow, f"{file} cannot be read") from error


def _damaged(flow: str, what: str) -> TableError:
    return TableError(f"the checkpoint of flow {flow} is damaged: {what}", _REMEDY)
