"""An atomic change of several tables, despite kills.

It is prepared in a separate directory and takes effect when its journal is written. Each table is then
changed by one Delta commit with the swap's number, so a repetition does nothing. The number
is one more than any in the tables, so no clock is involved. The next process that gets the
batch lock finishes an interrupted swap, before any batch sees half of it.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from tidemark.contract.files import STATISTICS_BYTES
from tidemark.errors import conflict
from tidemark.local.records import replace_text
from tidemark.settings import Settings
from tidemark.store import deltalog, lakehouse
from tidemark.store.copies import take_all
from tidemark.store.lakehouse import Lakehouse, is_conflict
from tidemark.stream.crash import crash_point
from tidemark.stream.table_state import TableState, record_states

WRITER = "tidemark/swap"
_WRITER_PROPERTIES = WriterProperties(
    compression="ZSTD", compression_level=3, statistics_truncate_length=STATISTICS_BYTES
)
_ATTEMPTS = 5


@dataclass(frozen=True)
class Step:
    """One table's part. `overwrite`: the staged rows replace all rows. `replace`: they replace the rows
    that fulfil `predicate` (delta-rs SQL). `append`: they are added. `delete`: rows of `predicate` are deleted."""

    table: str
    mode: Literal["overwrite", "replace", "append", "delete"]
    predicate: str = ""


@dataclass(frozen=True)
class Swap:
    """The change of several tables of a home, of which there is at most one at a time."""

    settings: Settings

    @cached_property
    def lakehouse(self) -> Lakehouse:
        """The tables that are changed."""
        return lakehouse.of(self.settings)

    @cached_property
    def staged(self) -> Lakehouse:
        """The staged tables."""
        return self.lakehouse.beside(self.settings.home, "swap")

    @property
    def interrupted(self) -> bool:
        """Whether a swap has begun and not ended. A running swap holds the lock, so if this is true under the
        lock, the swap was killed."""
        return self._journal.exists()

    def discard(self) -> None:
        """Deletes the staged tables. The caller ensures that the swap has not begun."""
        self.staged.files.clear(self.staged.files.base)
        with suppress(FileNotFoundError):
            shutil.rmtree(self._journal.parent)

    def commit(self, steps: Sequence[Step], states: Mapping[str, TableState] | None = None) -> int:
        """Executes the swap; the caller holds the lock exclusively. Returns the swap's number.

        `states`: how the rows of tables are made from then on, see `tidemark.stream.table_state`. Once the journal
        is written, the swap will happen, possibly after a restart.
        """
        number = 1 + max(_last(self.lakehouse.delta(step.table)) for step in steps)
        journal = self._journal
        journal.parent.mkdir(parents=True, exist_ok=True)
        crash_point("swap:before-journal")
        # The batches before the swap and the staged rows must not be lost where the journal is kept.
        self.lakehouse.sync()
        plan = {
            "number": number,
            "steps": [asdict(step) for step in steps],
            "states": {name: state.entries for name, state in (states or {}).items()},
        }
        replace_text(journal, json.dumps(plan), durable=True)
        self.finish()
        return number

    def finish(self) -> None:
        """Finishes a swap that has begun; the caller holds the lock exclusively."""
        if not self.interrupted:
            return
        plan = json.loads(self._journal.read_text(encoding="utf-8"))
        for step in plan["steps"]:
            crash_point("swap:between-tables")
            self._apply(Step(**step), plan["number"])
        states = {name: TableState.of(entries) for name, entries in plan.get("states", {}).items()}
        swapped = {step["table"]: states.get(step["table"], TableState()) for step in plan["steps"]}
        record_states(
            self.lakehouse, {name: replace(state, swap=plan["number"]) for name, state in swapped.items()}
        )
        crash_point("swap:before-end")
        self.lakehouse.sync()  # only the journal can repeat what a power failure removes
        self._journal.unlink()
        self.discard()

    @property
    def _journal(self) -> Path:
        return self.settings.home / "swap" / "journal.json"

    def _apply(self, step: Step, number: int) -> None:
        """Applies a step. Retries on the newest version after a conflict, for example with upkeep. Raises TableError,
        and PlatformError where the machine is the cause."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                target = self.lakehouse.delta(step.table)
            except (DeltaError, OSError) as error:
                raise self.lakehouse.failure(step.table, "read", error) from error
            if _last(target) >= number:
                return
            try:
                self._commit(step, target, number)
                return
            except (DeltaError, OSError) as error:
                if not is_conflict(error):
                    raise self.lakehouse.failure(step.table, "written", error) from error
                if attempt == _ATTEMPTS:
                    raise conflict(step.table, _ATTEMPTS, error) from error

    def _commit(self, step: Step, target: DeltaTable, number: int) -> None:
        properties = CommitProperties(app_transactions=[Transaction(WRITER, number)])
        if step.mode == "delete":
            target.delete(step.predicate, writer_properties=_WRITER_PROPERTIES, commit_properties=properties)
        elif step.mode == "replace":
            rows = self.staged.dataset(step.table, self.staged.delta(step.table)).scanner().to_reader()
            # The table of an earlier version may describe a column in other words, which delta-rs refuses to merge.
            plain = pa.schema([field.remove_metadata() for field in rows.schema])
            write_deltalake(
                target,
                rows.cast(plain),
                mode="overwrite",
                predicate=step.predicate,
                writer_properties=_WRITER_PROPERTIES,
                commit_properties=properties,
            )
        else:
            files = self._taken(step.table, number)
            target.create_write_transaction(
                list(files), step.mode, target.schema(), commit_properties=properties
            )

    def _taken(self, table: str, number: int) -> Sequence[AddAction]:
        """Adds the staged files to the table's directory: as hard links if possible, else as copies. Their age starts
        here, or a vacuum could delete them as old leftovers."""
        live = _live_files(self.staged.log(table))
        names = [f"swap-{number}-{Path(file['path']).name}" for file in live]
        origin, path = self.staged.directory(table), self.lakehouse.directory(table)
        pairs = [
            (f"{origin}/{file['path']}", f"{path}/{name}") for file, name in zip(live, names, strict=True)
        ]
        take_all(self.lakehouse.files, self.staged.files, pairs, renew=True)
        now = time.time_ns() // 1_000_000
        return [
            AddAction(name, file["size"], {}, now, True, file.get("stats") or "{}")
            for file, name in zip(live, names, strict=True)
        ]


def _last(target: DeltaTable) -> int:
    """Number of the last swap that changed the table, 0 if none did."""
    return target.transaction_version(WRITER) or 0


def _live_files(log: deltalog.Log) -> list[dict[str, Any]]:
    live: dict[str, dict[str, Any]] = {}
    for _, commit in deltalog.commits(log, 0):
        for action in commit:
            if "add" in action:
                live[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                live.pop(action["remove"]["path"], None)
    return list(live.values())
