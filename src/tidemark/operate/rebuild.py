"""Recomputes tables from their source with the current rules, beside the running flows.

The flows' own code processes the history in time ranges, into a separate lakehouse beside the home's. Then, between two
batches, the lines that arrived meanwhile are added, and the staged tables replace the live ones in one swap
(`tidemark.stream.swap`). Lines that arrived after the beginning keep the result of the running pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.errors import HomeBusyError, TableError
from tidemark.home import Home
from tidemark.operate import staging
from tidemark.operate.derivation import Derivation
from tidemark.operate.difference import Changed
from tidemark.operate.journal import Journal
from tidemark.operate.snapshot import at_snapshot
from tidemark.operate.staging import Staging
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream import applied, lock, schema_check
from tidemark.stream.crash import crash_point
from tidemark.stream.following import catch_up, followers_of, stage
from tidemark.stream.swap import Swap
from tidemark.stream.table_state import recorded

Report = Callable[[str, int, int], None]  # names of tables, parts of them that are done, parts in all


@dataclass(frozen=True)
class Rebuild:
    """A rebuild of tables; `run` rebuilds those in directories or on object storage, and
    `tidemark.operate.catalog_rebuild` those of a catalog.

    `validation` of lines is that of `rules`, their `rules_version`; `masking` is that of requests whose lines are gone.
    Lines that `after_version` of silver.requests does not have are read with it already.
    """

    home: Home
    validation: Vectorized
    masking: Vectorized
    rules: str
    after_version: int = -1
    report: Report = lambda tables, done, total: None

    @cached_property
    def of_lines(self) -> Derivation:
        """The validation of all lines again."""
        return Derivation.of_lines(self.home, self.validation, masks=self.masks)

    @cached_property
    def masks(self) -> bool:
        """Whether the lines themselves are to be masked, because the privacy settings of history are others."""
        state = recorded(self.home.lakehouse, self.home.graph.accepted.name)
        return applied.masks_history(self.home.settings, state)

    @cached_property
    def of_accepted(self) -> tuple[Derivation, ...]:
        """What makes the tables that consist of accepted lines."""
        return Derivation.of_accepted(self.home)

    def tables(self, names: Sequence[str]) -> list[Table]:
        """The named tables, and all that is made from them."""
        validates = any(table.name in names for table in self.of_lines.tables)
        of_accepted = [table for each in self.of_accepted for table in each.tables]
        chosen = [table for table in of_accepted if validates or table.name in names]
        return [*(self.of_lines.tables if validates else ()), *chosen]

    def run(
        self, names: Sequence[str], since: datetime | None = None,
        *, dry_run: bool = False, resumable: bool = False,
    ) -> list[Changed]:  # fmt: skip
        """Rebuilds the named tables, those whose rows no longer fit, and all made from them, from `since` on.

        A `resumable` rebuild continues a killed one of the same tables.
        Returns what changed, by table and day, and how many lines have other values.
        Raises HomeBusyError if another rebuild is running, TableError if no consistent snapshot is possible.
        """
        home = self.home.on_files()
        settings, store, swap = home.settings, home.store, Swap(home.settings)
        changed = schema_check.changed(home)
        if changed and since is not None:
            raise TableError(
                f"the state of {', '.join(changed)} has changed, so a part of it cannot be rebuilt",
                "Rebuild it as a whole, without --since.",
            )
        with lock.no_pipeline(settings) as stopped:
            if changed and not stopped:
                raise HomeBusyError(
                    f"the running pipeline makes {', '.join(changed)} in the way of before", "Stop it first."
                )
        remade = [table.name for each in (self.of_lines, *self.of_accepted) for table in each.tables]
        names = schema_check.with_unfit(names, changed, remade)
        with lock.only_rebuild(settings):
            for table in home.tables:
                store.ensure(table)
            journal = Journal.of(home, names, staging.CHUNK_ROWS, self.rules, kept=resumable)
            with at_snapshot(home, self.after_version) as snapshot:
                if not journal.snapshots:
                    swap.discard()
                    journal.add(snapshot)
            staged = DeltaRsStore(swap.staged)
            work = Staging(self, home, swap.staged, staged, since)
            try:
                state = work.stage(names, journal.snapshots[0])
                for later in journal.snapshots[1:]:
                    state = work.catch_up(state, later)
                if dry_run:
                    state = work.catch_up(state, snapshot)
                    followed = stage(followers_of(home), names, home, swap.staged, staged)
                    return list(work.compare(state, followed, None))
                with at_snapshot(home) as now:
                    crash_point("rebuild:before-catch-up")
                    journal.add(now)
                    state = work.catch_up(state, now)
                    crash_point("rebuild:caught-up")
                    if steps := state.steps:
                        swap.commit(steps, schema_check.rebuilt(settings, state.whole))
                    followed = catch_up(followers_of(home), home, recomputed=names)
                    after = {table.name: store.version(table) for table in home.tables}
                return list(work.compare(state, followed, after))
            finally:
                if not (swap.interrupted or journal.outlives_failure):
                    swap.discard()
