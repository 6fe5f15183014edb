"""Backfills tables that are new to a home with history, or have a new column, beside the running flows; and makes
all tables anew whose lines were read with other own hosts or trusted proxies (`tidemark.operate.site_settings`).

A new table counts new lines from its first start on. Its history is a rebuild of that table: staged in parts,
caught up, and swapped in at once. Until then quality.tables marks the table as incomplete. An interrupted
backfill continues at the next start, after the staged parts (`tidemark.operate.journal`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidemark.errors import TidemarkError
from tidemark.home import Home
from tidemark.local.records import read_record, write_record
from tidemark.operate import site_settings
from tidemark.stream import inventory
from tidemark.stream.table_state import incomplete

if TYPE_CHECKING:  # `status` needs none of it, and it takes a third of its time to import
    from tidemark.operate.rebuild import Rebuild, Report

    # A rebuild that reports its progress.
    Rebuilding = Callable[[Report], Rebuild]

log = logging.getLogger("tidemark.operate.backfill")

_RETRY_SECONDS = 30.0
_FILE = "history.json"


def pending(home: Home) -> bool:
    """Whether `fill` has something to do. Raises TableError."""
    return bool(_missing(home)) or site_settings.due(home) or site_settings.is_open(home.store)


def fill(home: Home, rebuilding: Rebuilding) -> None:
    """Fills every table whose history is missing, or recomputes all for changed settings of sites, and returns when
    that is done. Raises as `Rebuild.run`."""
    missing = _missing(home)
    due = site_settings.due(home)
    if not missing and not due:
        if site_settings.is_open(home.store):  # a failure came between the swap and the note
            site_settings.settle(home)
        return
    names = list(dict.fromkeys([*missing, *([site_settings.REQUESTS] if due else [])]))
    log.info("filling %s with history", ", ".join(names))
    path = home.settings.run_directory / _FILE

    def report(tables: str, done: int, total: int) -> None:
        write_record(path, tables=tables, done=done, total=total)
        inventory.record(home, tables.split(", "), done, total)

    inventory.announce(home, incomplete(home.lakehouse))
    if due:
        inventory.record(home, [site_settings.REQUESTS], 0, None)
    changed = rebuilding(report).run(names, resumable=True)
    if due:
        site_settings.complete(home, changed)
    path.unlink(missing_ok=True)
    inventory.announce(home, incomplete(home.lakehouse))
    log.info("filled %s", ", ".join(names))


def _missing(home: Home) -> list[str]:
    """The tables whose history is to be filled: not those with a row per line where bronze lacks lines, because rows of
    these would be dropped. They keep their rows, with NULL in the new columns."""
    names = incomplete(home.lakehouse)
    of_lines = [table.name for table in (home.graph.accepted, home.graph.rejected) if table.name in names]
    if of_lines and home.lakehouse.can.files and (why := site_settings.lacking_lines(home)):
        log.warning("%s get no history in their new columns: %s", " and ".join(of_lines), why)
        return [name for name in names if name not in of_lines]
    return names


def fill_beside(
    home: Home, rebuilding: Rebuilding, filled: Callable[[], None]
) -> Callable[[threading.Event], None]:
    """A function that does this beside the flows, and calls `filled` in the end. A failure is logged and retried; it
    never stops them."""

    def run(stopping: threading.Event) -> None:
        # A separate pool shares the CPU evenly with the batches.
        home.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "history")
        while not stopping.is_set():
            try:
                fill(home, rebuilding)
                filled()
                return
            except Exception as error:  # a failed backfill must not stop the pipeline
                if not stopping.wait(_RETRY_SECONDS):
                    reason = error if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"
                    log.error("history is not filled yet, it is tried again: %s", reason)

    return run


def progress(home: Home) -> dict[str, dict[str, Any]]:
    """By table with missing history, the number of parts that are `done` and the `total` (None: not begun)."""
    tables, under_way = _under_way(home)
    none: dict[str, Any] = {"done": 0, "total": None}
    return {name: under_way if name in tables else none for name in incomplete(home.lakehouse)}


def settings_progress(home: Home) -> dict[str, Any]:
    """The `sites` whose changed settings history does not have (`subject`: which), with what is `done` of the `total`
    parts of the present `tables`, or the `reason` why that is not done by itself; empty if there are none. Raises
    TableError."""
    changed = site_settings.unapplied(home)
    if not changed.settings:
        return {}
    tables, under_way = _under_way(home)
    return {
        "sites": changed.sites,
        "subject": changed.subject,
        "tables": tables,
        **under_way,
        "reason": site_settings.reason(home.store) if home.lakehouse.can.files else "",
    }


def _under_way(home: Home) -> tuple[str, dict[str, Any]]:
    """The tables that are being made, and the number of parts."""
    record = read_record(home.settings.run_directory / _FILE)
    return record.get("tables", ""), {"done": record.get("done", 0), "total": record.get("total")}
