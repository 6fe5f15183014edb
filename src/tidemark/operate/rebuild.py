"""Recomputes tables from their source with the current rules, beside the running flows.

The flows' own code processes the history in time ranges, into a separate lakehouse beside the home's. Then, between two
batches, the lines that arrived meanwhile are added, and the staged tables replace the live ones in one swap
(`tidemark.stream.swap`). Lines that arrived after the beginning keep the result of the running pipeline.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.contract.expression import column
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.errors import HomeBusyError, TableError
from tidemark.operate import redelivery, staging
from tidemark.operate.corrections import Corrections, correction, spans
from tidemark.operate.derivation import Derivation, together
from tidemark.operate.difference import Changed, differences
from tidemark.operate.journal import Journal, staged_parts
from tidemark.operate.ranges import iso, since_then, time_ranges
from tidemark.operate.revalued import revalued
from tidemark.operate.rows import Rows, Slice
from tidemark.operate.snapshot import Chain, Snapshot, at_snapshot
from tidemark.settings import Settings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import lock, schema_check, swap
from tidemark.stream.crash import crash_point
from tidemark.stream.following import Follower, catch_up, stage

CHUNK_ROWS = 500_000  # processed at a time, unless one minute has more
_WRITER = "rebuild"

Say = Callable[[str, int, int], None]  # what is done, parts done, parts in all


@dataclass(frozen=True)
class Rebuild:
    """The environment of a rebuild; `run` takes the tables. `rules` is the `rules_version` of lines; those
    that `after_version` of silver.requests does not have are read with it already."""

    spark: SparkSession
    settings: Settings
    house: Lakehouse
    tables: tuple[Table, ...]
    chain: Chain
    judging: Derivation
    derived: tuple[Derivation, ...]
    accounts: Table
    sites: Table
    followers: tuple[Follower, ...] = ()
    rules: str = ""
    after_version: int = -1
    say: Say = field(default=lambda what, done, total: None)

    def run(
        self, names: Sequence[str], since: datetime | None = None,
        *, dry_run: bool = False, resumable: bool = False,
    ) -> list[Changed]:  # fmt: skip
        """Rebuilds the named tables, those whose rows no longer fit, and all made from them, from `since` on.

        A `resumable` rebuild continues a killed one of the same tables.
        Returns what changed, by table and day, and how many lines have other values.
        Raises HomeBusyError if another rebuild is running, TableError if no consistent snapshot is possible.
        """
        changed = schema_check.changed(self.settings, self.house, self.tables)
        if changed and since is not None:
            raise TableError(
                f"the state of {', '.join(changed)} has changed, so a part of it cannot be rebuilt",
                "Rebuild it as a whole, without --since.",
            )
        with lock.no_pipeline(self.settings) as stopped:
            if changed and not stopped:
                raise HomeBusyError(
                    f"the running pipeline makes {', '.join(changed)} in the way of before", "Stop it first."
                )
        remade = [table.name for each in (self.judging, *self.derived) for table in each.tables]
        names = schema_check.with_unfit(names, changed, remade)
        with lock.only_rebuild(self.settings):
            store = DeltaRsStore(self.house)
            for table in self.tables:
                store.ensure(table)
            journal = Journal.of(self.settings, self.tables, names, CHUNK_ROWS, self.rules, kept=resumable)
            here = self.settings, self.house, store, self.tables, self.chain
            with at_snapshot(*here, self.after_version) as snapshot:
                if not journal.snapshots:
                    swap.discard(self.settings)
                    journal.add(snapshot)
            staged = DeltaRsStore(aside := swap.staging(self.settings))
            work = _Work(self, store, staged, journal.snapshots[0], since)
            try:
                work.stage(names)
                for later in journal.snapshots[1:]:
                    work.catch_up(later)
                if dry_run:
                    work.catch_up(snapshot)
                    work.followed = stage(self.followers, names, self.house, aside, staged)
                    return list(work.compare(snapshot, None))
                with at_snapshot(*here) as now:
                    crash_point("rebuild:before-catch-up")
                    journal.add(now)
                    work.catch_up(now)
                    crash_point("rebuild:caught-up")
                    if steps := work.steps():
                        swap.commit(self.settings, steps, schema_check.rebuilt(self.settings, work.whole))
                    work.followed = catch_up(self.followers, self.house, store, anew=names)
                    after = {table.name: store.version(table) for table in self.tables}
                return list(work.compare(now, after))
            finally:
                if not (swap.interrupted(self.settings) or journal.outlives_failure):
                    swap.discard(self.settings)


class _Work:
    """One rebuild: the staged tables, then the lines that arrived meanwhile."""

    def __init__(
        self, job: Rebuild, store: Store, staged: DeltaRsStore, snapshot: Snapshot, since: datetime | None
    ) -> None:
        self._job = job
        self._store = store
        self._staged = staged
        self._snapshot = snapshot
        # Which lines are not staged yet: for the tables of the first flow, and for those of the second.
        self._first_lack = self._second_lack = snapshot.later()
        self._since = since
        self._number = 0
        # The tables that follow others and have changed.
        self.followed: list[Table] = []
        # Derivation, and the start of its source's range (None: from the beginning).
        self._made: list[tuple[Derivation, datetime | None]] = []
        self._corrections: Corrections | None = None
        # Keys of lines of which another delivery is accepted; None if no line has an id.
        self._surplus: pa.Table | None = None

    def stage(self, names: Sequence[str]) -> None:
        """Makes the staged tables from the lines before the snapshot."""
        since = self._since
        judging = self._job.judging
        if any(table.name in names for table in judging.tables):
            lines, days = self._source(judging, self._snapshot), self._job.settings.meaning.duplicate_days
            self._surplus = redelivery.surplus(lines, judging.judge, self._judged_before(), since, days)
            self._make(judging, lines, since)
            self._corrections = Corrections.of(self._judged_before(), self._judged_after())
            names = [table.name for derivation in self._job.derived for table in derivation.tables]
            if since is not None:
                since = self._first_touched()
                if since is None:  # no line before and none now
                    names = []
        chosen = [each for each in self._job.derived if any(table.name in names for table in each.tables)]
        for derivation, start in together(chosen, since):
            source = self._judged_after() if self._corrections else self._source(derivation, self._snapshot)
            self._make(derivation, source, start)

    def catch_up(self, now: Snapshot) -> None:
        """Adds the lines that arrived after the snapshot and are in the live tables `now`."""
        if self._surplus is not None:
            self._require_no_redelivery(now)
        if self._corrections:
            between = self._job.chain.between
            tail = self._live(between, now.versions[between.name]).where(self._first_lack)
            self._corrections = self._corrections.caught_up(tail)
        for derivation, since in self._made:
            if derivation is self._job.judging:
                for table in derivation.tables:
                    rows = self._live(table, now.versions[table.name]).where(self._first_lack)
                    rows = since_then(rows, table.clock, since)
                    staging.append(self._staged, table, rows, self._next())
            else:
                version = now.passed if derivation.second else now.versions[derivation.source.name]
                lack = self._second_lack if derivation.second else self._first_lack
                tail = self._live(derivation.source, version).where(lack)
                self._put(derivation, since_then(tail, derivation.time, since))
        if self._corrections:
            rows = self._corrections.sites(self._store.read(self._job.sites), self._job.sites)
            staging.put(self._staged, self._job.sites, rows, self._next())
            if self._corrections.changes:
                entry = correction(self._store, self._job.accounts, _WRITER, self._corrections)
                staging.put(self._staged, self._job.accounts, entry, self._next())
        self._snapshot, self._first_lack, self._second_lack = now, now.new(), now.later()

    @property
    def whole(self) -> list[Table]:
        """The tables that are recomputed from their whole source."""
        return [table for table, _, since in self._tables() if since is None]

    def _tables(self) -> Iterator[tuple[Table, str, datetime | None]]:
        """The made tables, with the column and the value of it from which on (None: all) they are made."""
        for derivation, since in self._made:
            for table in derivation.tables:
                yield table, table.clock if derivation is self._job.judging else table.time, since

    def steps(self) -> list[swap.Step]:
        found = []
        for table, name, since in self._tables():
            if since is None:
                found.append(swap.Step(table.name, "overwrite"))
            else:
                found.append(swap.Step(table.name, "replace", f"{name} >= '{iso(since)}'"))
        if self._corrections:
            found.append(swap.Step(self._job.sites.name, "overwrite"))
            if self._corrections.changes:
                found.append(swap.Step(self._job.accounts.name, "append"))
        return found

    def compare(self, before: Snapshot, after: Mapping[str, int] | None) -> Iterator[Changed]:
        """Compares the rebuilt tables at `before` with the versions `after`, or with the staged tables."""
        pairs = []
        for table, name, since in (*self._tables(), *((table, table.time, None) for table in self.followed)):
            old = self._live(table, before.versions[table.name])
            new = self._live(table, after[table.name]) if after is not None else self._read_staged(table)
            if after is None and since is not None:
                new = new + old.where(column(name) < since)
            pairs.append((table, old, new))
        lines = self._job.chain.between
        yield from itertools.chain.from_iterable(itertools.starmap(differences, pairs))
        yield from itertools.chain.from_iterable(revalued(*pair) for pair in pairs if pair[0] is lines)

    def _make(self, derivation: Derivation, source: Rows, since: datetime | None) -> None:
        for table in derivation.tables:
            self._staged.ensure(table)
        self._made.append((derivation, since))
        source = since_then(source, derivation.time, since)
        names = ", ".join(table.name for table in derivation.tables)
        parts = time_ranges(source, derivation.time, CHUNK_ROWS)
        before = staged_parts(self._staged, derivation.tables, Commit(_WRITER, self._number), len(parts))
        self._job.say(names, before, len(parts))
        for done, part in enumerate(parts, start=1):
            if self._put(derivation, source.where(part)):
                crash_point("rebuild:staging")
                self._job.say(names, done, len(parts))

    def _put(self, derivation: Derivation, rows: Rows) -> bool:
        """Stages rows; False where a rebuild that was killed has staged them."""
        commit = self._next()
        if all(self._staged.committed(table, _WRITER) >= self._number for table in derivation.tables):
            return False
        if derivation is self._job.judging:
            derivation = derivation.without_repeated(self._surplus)
        derivation.put(rows, self._staged, self._newest(), commit)
        staging.number_all(self._staged, derivation.tables, commit)
        return True

    def _next(self) -> Commit:
        self._number += 1
        return Commit(_WRITER, self._number)

    def _newest(self) -> dict[str, datetime]:
        if self._corrections:
            spans = {site: newest for site, (_, newest) in self._corrections.spans.items()}
        else:
            rows = self._store.read(self._job.sites, columns=["site", "newest_event_time"]).to_pylist()
            spans = {row["site"]: row["newest_event_time"] for row in rows}
        return {site: newest for site, newest in spans.items() if newest is not None}

    def _source(self, derivation: Derivation, snapshot: Snapshot) -> Rows:
        return self._live(derivation.source, snapshot.versions[derivation.source.name]).where(
            ~snapshot.later()
        )

    def _live(self, table: Table, version: int) -> Rows:
        return Rows(self._job.spark, (Slice(self._job.house, table, version),))

    def _read_staged(self, table: Table) -> Rows:
        return Rows(self._job.spark, (Slice(swap.staging(self._job.settings), table),))

    def _judged_before(self) -> Rows:
        table = self._job.chain.between
        return self._live(table, self._snapshot.versions[table.name]).where(~self._snapshot.later())

    def _judged_after(self) -> Rows:
        """The accepted lines before the snapshot, after the rebuild. A rebuild that was killed may have staged later
        ones."""
        table = self._job.chain.between
        staged, earlier = self._read_staged(table).where(~self._snapshot.later()), self._judged_before()
        return staged + earlier.where(column(table.clock) < self._since) if self._since else staged

    def _require_no_redelivery(self, now: Snapshot) -> None:
        """Raises TableError if the running pipeline accepted another delivery of a newly accepted line meanwhile."""
        judging, between = self._job.judging, self._job.chain.between
        tail = self._live(judging.source, now.versions[judging.source.name]).where(self._snapshot.later())
        accepted = self._live(between, now.versions[between.name])
        before = self._source(judging, self._snapshot)
        if redelivery.collides(tail, accepted, before, self._judged_after(), self._judged_before()):
            raise TableError(
                "a line that the rebuild accepts was delivered again while it ran", "Start the rebuild again."
            )

    def _first_touched(self) -> datetime | None:
        """The earliest event time of the revalidated lines, in the old or the new result."""
        table = self._job.chain.between
        lines = since_then(self._judged_before(), table.clock, self._since)
        return min((row["first"] for row in spans(lines + self._read_staged(table)).values()), default=None)
