"""An atomic change of several tables, despite kills.

It is prepared in a separate directory and takes effect when its journal is written. Each table is then
changed by one Delta commit with the swap's number, so a repetition does nothing. The number
is one more than any in the tables, so no clock is involved. The next process that gets the
batch lock finishes an interrupted swap, before any batch sees half of it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from tidemark.errors import TableError
from tidemark.settings import Settings
from tidemark.store import deltalog, lakehouse
from tidemark.store.copies import take_all
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import schema_check
from tidemark.stream.crash import crash_point

WRITER = "tidemark/swap"
_WRITER_PROPERTIES = WriterProperties(compression="ZSTD", compression_level=3)
_ATTEMPTS = 5


@dataclass(frozen=True)
class Step:
    """One table's part. `overwrite`: the staged rows replace all rows. `replace`: they replace the rows
    that fulfil `predicate` (delta-rs SQL). `append`: they are added. `delete`: rows of `predicate` are deleted."""

    table: str
    mode: Literal["overwrite", "replace", "append", "delete"]
    predicate: str = ""


def staging(settings: Settings) -> Lakehouse:
    """Location of the staged tables of a swap."""
    return lakehouse.of(settings).beside(settings.home, "swap")


def interrupted(settings: Settings) -> bool:
    """Whether a swap has begun and not ended. A running swap holds the lock, so if this is true under the
    lock, the swap was killed."""
    return _journal(settings).exists()


def discard(settings: Settings) -> None:
    """Deletes the staged tables of a swap. The caller ensures that it has not begun."""
    staged = staging(settings)
    staged.files.clear(staged.files.base)
    with suppress(FileNotFoundError):
        shutil.rmtree(settings.home / "swap")


def commit(
    settings: Settings, steps: Sequence[Step], states: Mapping[str, schema_check.State] | None = None
) -> int:
    """Executes the swap; the caller holds the lock exclusively. Returns the swap's number.

    `states`: how the rows of tables are made from then on, for the record of `schema_check`. Once the journal
    is written, the swap will happen, possibly after a restart.
    """
    house = lakehouse.of(settings)
    number = 1 + max(_last(house.delta(step.table)) for step in steps)
    journal = _journal(settings)
    journal.parent.mkdir(parents=True, exist_ok=True)
    crash_point("swap:before-journal")
    os.sync()  # the batches before the swap and the staged rows must not be lost where the journal is kept
    unfinished = journal.with_suffix(".unfinished")
    with unfinished.open("w", encoding="utf-8") as file:
        plan = {"number": number, "steps": [asdict(step) for step in steps], "states": dict(states or {})}
        json.dump(plan, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(journal)
    finish(settings)
    return number


def finish(settings: Settings) -> None:
    """Finishes a swap that has begun; the caller holds the lock exclusively."""
    journal = _journal(settings)
    if not journal.exists():
        return
    plan = json.loads(journal.read_text(encoding="utf-8"))
    house = lakehouse.of(settings)
    for step in plan["steps"]:
        crash_point("swap:between-tables")
        _apply(Step(**step), house, staging(settings), plan["number"])
    states = plan.get("states", {})
    number = {schema_check.SWAP: str(plan["number"])}
    schema_check.write(
        house, {step["table"]: states.get(step["table"], {}) | number for step in plan["steps"]}
    )
    crash_point("swap:before-end")
    os.sync()  # only the journal can repeat what a power cut removes
    journal.unlink()
    discard(settings)


def _apply(step: Step, house: Lakehouse, staged: Lakehouse, number: int) -> None:
    """Applies a step. Retries on the newest version after a conflict, for example with upkeep."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            target = house.delta(step.table)
        except (DeltaError, OSError) as error:
            raise TableError(
                f"table {step.table} at {house.path(step.table)} cannot be read: {error}",
                "See docs/operations.md, 'A damaged table'.",
            ) from error
        if _last(target) >= number:
            return
        try:
            _commit(step, target, house, staged, number)
            return
        except CommitFailedError:
            if attempt == _ATTEMPTS:
                raise


def _last(target: DeltaTable) -> int:
    """Number of the last swap that changed the table, 0 if none did."""
    return target.transaction_version(WRITER) or 0


def _commit(step: Step, target: DeltaTable, house: Lakehouse, staged: Lakehouse, number: int) -> None:
    properties = CommitProperties(app_transactions=[Transaction(WRITER, number)])
    if step.mode == "delete":
        target.delete(step.predicate, writer_properties=_WRITER_PROPERTIES, commit_properties=properties)
    elif step.mode == "replace":
        rows = staged.dataset(step.table, staged.delta(step.table)).scanner().to_reader()
        write_deltalake(
            target, rows, mode="overwrite", predicate=step.predicate,
            writer_properties=_WRITER_PROPERTIES, commit_properties=properties,
        )  # fmt: skip
    else:
        files = _taken(step.table, house, staged, number)
        target.create_write_transaction(list(files), step.mode, target.schema(), commit_properties=properties)


def _taken(table: str, house: Lakehouse, staged: Lakehouse, number: int) -> list[AddAction]:
    """Adds the staged files to the table's directory: as hard links if possible, else as copies. Their age starts
    here, or a vacuum could delete them as old leftovers."""
    live = _live_files(staged.log(table))
    names = [f"swap-{number}-{Path(file['path']).name}" for file in live]
    origin, path = staged.directory(table), house.directory(table)
    pairs = [(f"{origin}/{file['path']}", f"{path}/{name}") for file, name in zip(live, names, strict=True)]
    take_all(house.files, staged.files, pairs, renew=True)
    now = time.time_ns() // 1_000_000
    return [
        AddAction(name, file["size"], {}, now, True, file.get("stats") or "{}")
        for file, name in zip(live, names, strict=True)
    ]


def _live_files(log: deltalog.Log) -> list[dict[str, Any]]:
    live: dict[str, dict[str, Any]] = {}
    for _, commit in deltalog.commits(log, 0):
        for action in commit:
            if "add" in action:
                live[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                live.pop(action["remove"]["path"], None)
    return list(live.values())


def _journal(settings: Settings) -> Path:
    return settings.home / "swap" / "journal.json"
