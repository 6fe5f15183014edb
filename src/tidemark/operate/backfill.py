"""Backfills tables that are new to a home with history, or have a new column, beside the running flows.

Such a table counts new lines from its first start on. Its history is a rebuild of that table: staged in parts,
caught up, and swapped in at once. Until then quality.tables marks the table as incomplete. An interrupted
backfill continues at the next start, after the staged parts (`tidemark.operate.journal`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from tidemark.contract.store import Store
from tidemark.errors import TidemarkError
from tidemark.local.process import read_record, write_record
from tidemark.operate.rebuild import Rebuild, Say
from tidemark.settings import Settings
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import inventory, schema_check

log = logging.getLogger("tidemark.operate.backfill")

_RETRY_SECONDS = 30.0
_FILE = "history.json"

# A rebuild that reports its progress.
Rebuilding = Callable[[Say], Rebuild]


def fill(settings: Settings, house: Lakehouse, store: Store, rebuilding: Rebuilding) -> None:
    """Fills every table whose history is missing, and returns when that is done. Raises as `Rebuild.run`."""
    names = schema_check.incomplete(house)
    if not names:
        return
    log.info("filling %s with history", ", ".join(names))
    path = settings.run_directory / _FILE

    def say(what: str, done: int, total: int) -> None:
        write_record(path, tables=what, done=done, total=total)
        inventory.record(settings, store, what.split(", "), done, total)

    job = rebuilding(say)
    inventory.announce(settings, store, job.tables, names)
    job.run(names, resumable=True)
    path.unlink(missing_ok=True)
    inventory.announce(settings, store, job.tables, schema_check.incomplete(house))
    log.info("filled %s", ", ".join(names))


def fill_beside(
    spark: SparkSession,
    settings: Settings,
    house: Lakehouse,
    store: Store,
    rebuilding: Rebuilding,
    filled: Callable[[], None],
) -> Callable[[threading.Event], None]:
    """A function that does this beside the flows, and calls `filled` in the end. A failure is logged and retried; it
    never stops them."""

    def run(stopping: threading.Event) -> None:
        # A separate pool shares the CPU evenly with the batches.
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", "history")
        while not stopping.is_set():
            try:
                fill(settings, house, store, rebuilding)
                filled()
                return
            except Exception as error:  # a failed backfill must not stop the pipeline
                if not stopping.wait(_RETRY_SECONDS):
                    said = error if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"
                    log.error("history is not filled yet, it is tried again: %s", said)

    return run


def progress(settings: Settings, house: Lakehouse) -> dict[str, dict[str, Any]]:
    """By table with missing history, the number of parts that are `done` and the `total` (None: not begun)."""
    record = read_record(settings.run_directory / _FILE)
    under_way = {"done": record.get("done", 0), "total": record.get("total")}
    none: dict[str, Any] = {"done": 0, "total": None}
    return {
        name: under_way if name in record.get("tables", "") else none
        for name in schema_check.incomplete(house)
    }
