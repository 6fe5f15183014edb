"""Recomputes tables from their source with the current rules, beside the running flows.

The flows' own code processes the history in time ranges, into a separate lakehouse beside the home's. Then, between two
batches, the lines that arrived meanwhile are added, and the staged tables replace the live ones in one swap
(`tidemark.stream.swap`). Lines that arrived after the beginning keep the result of the running pipeline.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property

import pyarrow as pa

from tidemark.contract.expression import Expression, column
from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.store import Commit
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.errors import HomeBusyError, TableError
from tidemark.home import Home
from tidemark.operate import redelivery, staging
from tidemark.operate.corrections import Corrections, correction, spans
from tidemark.operate.derivation import Derivation, together
from tidemark.operate.difference import Changed, differences
from tidemark.operate.journal import Journal, staged_parts
from tidemark.operate.ranges import iso, since_then, time_ranges
from tidemark.operate.retention import ceil, complete_from, expiry, unexpired
from tidemark.operate.revalued import revalued
from tidemark.operate.rows import Rows, Slice
from tidemark.operate.snapshot import Snapshot, at_snapshot
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream import applied, lock, schema_check
from tidemark.stream.crash import crash_point
from tidemark.stream.following import catch_up, followers_of, stage
from tidemark.stream.swap import Step, Swap
from tidemark.stream.table_state import recorded

CHUNK_ROWS = 500_000  # processed at a time, unless one minute has more
_WRITER = "rebuild"

Report = Callable[[str, int, int], None]  # names of tables, parts of them that are done, parts in all


@dataclass(frozen=True)
class Rebuild:
    """A rebuild of tables in directories or on object storage; `run` takes the tables.

    `validation` of lines is that of `rules`, their `rules_version`. Lines that `after_version` of silver.requests does
    not have are read with it already.
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
            journal = Journal.of(home, names, CHUNK_ROWS, self.rules, kept=resumable)
            with at_snapshot(home, self.after_version) as snapshot:
                if not journal.snapshots:
                    swap.discard()
                    journal.add(snapshot)
            staged = DeltaRsStore(swap.staged)
            work = _Work(self, home, staged, since)
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


@dataclass(frozen=True)
class _Staged:
    """What is staged as of a snapshot.

    `derivations` are each with the start of its source's range (None: all). `first_lack` and `second_lack`
    are the lines that are not staged yet, for the tables of the first and of the second flow. `surplus`: keys of lines
    of which another delivery is accepted; None if no line has an id. `sessions_from`: tables that are recomputed as a
    whole keep their rows before (None: no row). `partly`: only a part of the rows was asked for.
    """

    snapshot: Snapshot
    first_lack: Expression
    second_lack: Expression
    derivations: tuple[tuple[Derivation, datetime | None], ...] = ()
    corrections: Corrections | None = None
    surplus: pa.Table | None = None
    sessions_from: datetime | None = None
    partly: bool = False

    @property
    def tables(self) -> list[tuple[Table, str, datetime | None]]:
        """The made tables, with the column and the value of it from which on (None: all) they are made."""
        return [
            (table, derivation.replaced_by(table), self.sessions_from if derivation.whole else since)
            for derivation, since in self.derivations
            for table in derivation.tables
        ]

    @property
    def whole(self) -> list[Table]:
        """The tables that are recomputed from their whole source, as far as it goes back."""
        return [
            table
            for derivation, since in self.derivations
            for table in derivation.tables
            if since is None or not self.partly
        ]

    @property
    def steps(self) -> list[Step]:
        """The steps of the swap that puts the tables in place."""
        steps = [
            Step(table.name, "overwrite")
            if since is None
            else Step(table.name, "replace", f"{name} >= '{iso(since)}'")
            for table, name, since in self.tables
        ]
        if self.corrections:
            steps.append(Step(SITES.name, "overwrite"))
            if self.corrections.changes:
                steps.append(Step(ACCOUNTS.name, "append"))
        return steps


class _Work:
    """Stages the tables of one rebuild. Each method returns what is staged then."""

    def __init__(self, job: Rebuild, home: Home, staged: DeltaRsStore, since: datetime | None) -> None:
        self._job = job
        self._home = home
        self._store = home.store
        self._accepted = home.graph.accepted
        self._staged = staged
        self._since = since
        # Of the commit before; a killed rebuild repeats no commit.
        self._number = 0

    def stage(self, names: Sequence[str], at: Snapshot) -> _Staged:
        """Makes the tables from the lines before a snapshot."""
        since, kept = self._since, self._kept(self._accepted)
        state = _Staged(at, at.later(), at.later(), partly=since is not None)
        if kept:
            gap = timedelta(seconds=self._home.settings.meaning.session_gap_seconds)
            state = replace(state, sessions_from=ceil(kept + gap, 3600))
        of_lines, of_accepted = self._job.of_lines, self._job.of_accepted
        if any(table.name in names for table in of_lines.tables):
            lines, days = self._source(of_lines, at), self._home.settings.meaning.duplicate_days
            surplus = redelivery.surplus(lines, self._job.validation, self._accepted_before(at), since, days)
            state = self._make(replace(state, surplus=surplus), of_lines, lines, since)
            if lines_kept := self._kept(of_lines.source):
                self._keep_older(lines, at, lines_kept)
                if not self._job.masks:  # figures of older requests stay as they are
                    kept = max(kept or lines_kept, lines_kept)
            corrections = self._corrections(at)
            state = replace(state, corrections=corrections)
            names = [table.name for derivation in of_accepted for table in derivation.tables]
            if since is not None:
                since = self._first_touched(at)
                if since is None:  # no line before and none now
                    names = []
        chosen = [each for each in of_accepted if any(table.name in names for table in each.tables)]
        for derivation, start in together(chosen, since, kept):
            source = self._accepted_after(at) if state.corrections else self._source(derivation, at)
            state = self._make(state, derivation, source, start)
        return self._pruned(state)

    def catch_up(self, state: _Staged, now: Snapshot) -> _Staged:
        """Adds the lines that arrived after the snapshot of `state` and are in the live tables `now`."""
        if state.surplus is not None:
            self._require_no_redelivery(state.snapshot, now)
        if state.corrections:
            tail = self._live(self._accepted, now.versions[self._accepted.name]).where(state.first_lack)
            state = replace(state, corrections=state.corrections.caught_up(tail))
        for derivation, since in state.derivations:
            if derivation.validates:
                for table in derivation.tables:
                    rows = self._live(table, now.versions[table.name]).where(state.first_lack)
                    rows = since_then(rows, table.clock, since)
                    staging.append(self._staged, table, rows, self._next())
            else:
                version = now.passed if derivation.second else now.versions[derivation.source.name]
                lack = state.second_lack if derivation.second else state.first_lack
                tail = self._live(derivation.source, version).where(lack)
                self._put(state, derivation, since_then(tail, derivation.time, since))
        if state.corrections:
            rows = state.corrections.sites(self._store.read(SITES), SITES)
            staging.put(self._staged, SITES, rows, self._next())
            if state.corrections.changes:
                entry = correction(self._store, ACCOUNTS, _WRITER, state.corrections)
                staging.put(self._staged, ACCOUNTS, entry, self._next())
        return self._pruned(replace(state, snapshot=now, first_lack=now.new(), second_lack=now.later()))

    def _kept(self, table: Table) -> datetime | None:
        return complete_from(self._home, table, datetime.now(UTC))

    def _corrections(self, at: Snapshot) -> Corrections:
        """Deletes staged rows of lines whose time is over, and compares the others with those before."""
        now = datetime.now(UTC)
        for table in self._job.of_lines.tables:
            if condition := expiry(self._home, table, now):
                Swap(self._home.settings).staged.delta(table).delete(condition)
        kept = unexpired(self._home, self._accepted, now)
        return Corrections.of(self._accepted_before(at), self._accepted_after(at), kept)

    def _keep_older(self, lines: Rows, at: Snapshot, kept: datetime) -> None:
        """Stages the accepted rows whose lines are gone: as they are, or masked where lines are to be masked."""
        table, commit = self._accepted, self._next()
        if self._staged.committed(table, _WRITER) >= commit.number:
            return
        old = since_then(self._accepted_before(at), table.clock, self._since)
        masking = self._job.masking if self._job.masks else None
        staging.append_older(self._staged, table, old, lines, kept, commit, masking)
        staging.number_all(self._staged, self._job.of_lines.tables, commit)

    def _pruned(self, state: _Staged) -> _Staged:
        """The same without staged rows of sessions of which earlier lines may be gone."""
        if state.sessions_from:
            staged, start = Swap(self._home.settings).staged, iso(state.sessions_from)
            for table in (table for each, _ in state.derivations if each.whole for table in each.tables):
                staged.delta(table).delete(f"{table.time} < '{start}'")
        return state

    def compare(
        self, state: _Staged, followed: Sequence[Table], after: Mapping[str, int] | None
    ) -> Iterator[Changed]:
        """Compares the rebuilt tables, and those that follow them, with the versions `after`, or with the staged
        tables."""
        before, pairs = state.snapshot, []
        for table, name, since in (*state.tables, *((table, table.time, None) for table in followed)):
            old = self._live(table, before.versions[table.name])
            new = self._live(table, after[table.name]) if after is not None else self._read_staged(table)
            if after is None and since is not None:
                new = new + old.where(column(name) < since)
            pairs.append((table, old, new))
        yield from itertools.chain.from_iterable(itertools.starmap(differences, pairs))
        yield from itertools.chain.from_iterable(
            revalued(*pair) for pair in pairs if pair[0] is self._accepted
        )

    def _make(self, state: _Staged, derivation: Derivation, source: Rows, since: datetime | None) -> _Staged:
        for table in derivation.tables:
            self._staged.ensure(table)
        source = since_then(source, derivation.time, since)
        names = ", ".join(table.name for table in derivation.tables)
        parts = time_ranges(source, derivation.time, CHUNK_ROWS)
        before = staged_parts(self._staged, derivation.tables, Commit(_WRITER, self._number), len(parts))
        self._job.report(names, before, len(parts))
        for done, part in enumerate(parts, start=1):
            if self._put(state, derivation, source.where(part)):
                crash_point("rebuild:staging")
                self._job.report(names, done, len(parts))
        return replace(state, derivations=(*state.derivations, (derivation, since)))

    def _put(self, state: _Staged, derivation: Derivation, rows: Rows) -> bool:
        """Stages rows; False where a rebuild that was killed has staged them."""
        commit = self._next()
        if all(self._staged.committed(table, _WRITER) >= commit.number for table in derivation.tables):
            return False
        chosen = derivation.without_repeated(state.surplus)
        chosen.put(rows, self._staged, self._newest(state), commit)
        staging.number_all(self._staged, derivation.tables, commit)
        return True

    def _next(self) -> Commit:
        self._number += 1
        return Commit(_WRITER, self._number)

    def _newest(self, state: _Staged) -> dict[str, datetime]:
        if state.corrections:
            spans = {site: newest for site, (_, newest) in state.corrections.spans.items()}
        else:
            rows = self._store.read(SITES, columns=["site", "newest_event_time"]).to_pylist()
            spans = {row["site"]: row["newest_event_time"] for row in rows}
        return {site: newest for site, newest in spans.items() if newest is not None}

    def _source(self, derivation: Derivation, snapshot: Snapshot) -> Rows:
        return self._live(derivation.source, snapshot.versions[derivation.source.name]).where(
            ~snapshot.later()
        )

    def _live(self, table: Table, version: int) -> Rows:
        return Rows(lambda: self._home.spark, (Slice(self._home.lakehouse, table, version),))

    def _read_staged(self, table: Table) -> Rows:
        return Rows(lambda: self._home.spark, (Slice(Swap(self._home.settings).staged, table),))

    def _accepted_before(self, at: Snapshot) -> Rows:
        table = self._accepted
        return self._live(table, at.versions[table.name]).where(~at.later())

    def _accepted_after(self, at: Snapshot) -> Rows:
        """The accepted lines before the snapshot, after the rebuild. A rebuild that was killed may have staged later
        ones."""
        table = self._accepted
        staged, earlier = self._read_staged(table).where(~at.later()), self._accepted_before(at)
        return staged + earlier.where(column(table.clock) < self._since) if self._since else staged

    def _require_no_redelivery(self, at: Snapshot, now: Snapshot) -> None:
        """Raises TableError if the running pipeline accepted another delivery of a newly accepted line meanwhile."""
        of_lines = self._job.of_lines
        tail = self._live(of_lines.source, now.versions[of_lines.source.name]).where(at.later())
        accepted = self._live(self._accepted, now.versions[self._accepted.name])
        before = self._source(of_lines, at)
        if redelivery.collides(tail, accepted, before, self._accepted_after(at), self._accepted_before(at)):
            raise TableError(
                "a line that the rebuild accepts was delivered again while it ran", "Start the rebuild again."
            )

    def _first_touched(self, at: Snapshot) -> datetime | None:
        """The earliest event time of the revalidated lines, in the old or the new result."""
        table = self._accepted
        lines = since_then(self._accepted_before(at), table.clock, self._since)
        return min((row["first"] for row in spans(lines + self._read_staged(table)).values()), default=None)
