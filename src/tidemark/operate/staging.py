"""The staged tables of a rebuild. Each commit has a number, so a killed rebuild repeats none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemark.contract.expression import Expression, column
from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.engine.work import ALL, Work
from tidemark.errors import TableError
from tidemark.home import Home
from tidemark.operate import redelivery
from tidemark.operate.corrections import Corrections, correction, spans
from tidemark.operate.derivation import Derivation, together
from tidemark.operate.difference import Changed, differences, revalued
from tidemark.operate.journal import staged_parts
from tidemark.operate.retention import ceil, complete_from, expiry, iso, unexpired
from tidemark.operate.rows import Rows, Slice
from tidemark.operate.snapshot import Snapshot
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream.crash import crash_point
from tidemark.stream.deliveries import KEY
from tidemark.stream.swap import Step

if TYPE_CHECKING:
    from tidemark.operate.rebuild import Rebuild

CHUNK_ROWS = 500_000  # processed at a time, unless one minute has more
WRITER = "rebuild"
# By how much a time may differ that was read with another time zone.
_ZONES = timedelta(days=2)


@dataclass(frozen=True)
class Staged:
    """The tables that were staged from the lines before a snapshot.

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


class Staging:
    """Makes the tables of one rebuild in the lakehouse `beside` the home's, with the store `staged`. `stage` and
    `catch_up` return what is staged then."""

    def __init__(
        self, job: Rebuild, home: Home, beside: Lakehouse, staged: Store, since: datetime | None = None
    ) -> None:
        self._job = job
        self._home = home
        self._store = home.store
        self._accepted = home.graph.accepted
        self._beside = beside
        self._staged = staged
        self._since = since
        # Number of the last commit. Staging that was killed is not continued but begins again.
        self._number = 0

    def stage(self, names: Sequence[str], at: Snapshot) -> Staged:
        """Makes the tables from the lines before a snapshot."""
        since, kept = self._since, self._kept(self._accepted)
        state = Staged(at, at.later(), at.later(), partly=since is not None)
        if kept:
            gap = timedelta(seconds=self._home.settings.meaning.session_gap_seconds)
            state = replace(state, sessions_from=ceil(kept + gap, 3600))
        of_lines, of_accepted = self._job.of_lines, self._job.of_accepted
        if any(table.name in names for table in of_lines.tables):
            lines, days = self._before(of_lines.source, at), self._home.settings.meaning.duplicate_days
            surplus = redelivery.surplus(
                lines, self._job.validation, self._before(self._accepted, at), since, days
            )
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
            source = self._accepted_after(at) if state.corrections else self._before(self._accepted, at)
            state = self._make(state, derivation, source, start)
        return self._pruned(state)

    def catch_up(self, state: Staged, now: Snapshot) -> Staged:
        """Adds the lines that arrived after the snapshot of `state` and are in the live tables `now`."""
        if state.surplus is not None:
            self._require_no_redelivery(state.snapshot, now)
        if state.corrections:
            tail = self._live(self._accepted, now.versions).where(state.first_lack)
            state = replace(state, corrections=state.corrections.caught_up(tail))
        for derivation, since in state.derivations:
            if derivation.validates:
                for table in derivation.tables:
                    rows = self._live(table, now.versions).where(state.first_lack)
                    self._append(table, rows.since(table.clock, since), self._next())
            else:
                source = derivation.source
                versions = {source.name: now.passed} if derivation.second else now.versions
                lack = state.second_lack if derivation.second else state.first_lack
                tail = self._live(source, versions).where(lack)
                self._put(state, derivation, tail.since(derivation.time, since))
        if state.corrections:
            self._replace(SITES, state.corrections.sites(self._store.read(SITES), SITES))
            if state.corrections.changes:
                self._replace(ACCOUNTS, correction(self._store, ACCOUNTS, WRITER, state.corrections))
        return self._pruned(replace(state, snapshot=now, first_lack=now.new(), second_lack=now.later()))

    def _kept(self, table: Table) -> datetime | None:
        return complete_from(self._home, table, datetime.now(UTC))

    def _corrections(self, at: Snapshot) -> Corrections:
        """Deletes staged rows of lines whose time is over, and compares the others with those before."""
        now = datetime.now(UTC)
        for table in self._job.of_lines.tables:
            if condition := expiry(self._home, table, now):
                self._delete(table, condition)
        kept = unexpired(self._home, self._accepted, now)
        return Corrections.of(self._before(self._accepted, at), self._accepted_after(at), kept)

    def _keep_older(self, lines: Rows, at: Snapshot, kept: datetime) -> None:
        """Stages the accepted rows whose lines are gone: as they are, or masked where lines are to be masked. `lines`
        has all from `kept` on."""
        table, commit = self._accepted, self._next()
        if self._staged.committed(table, WRITER) >= commit.number:
            return
        time = column("event_time")
        near = lines.where(time.is_null() | (time < kept + 2 * _ZONES))
        keys = near.read().select(list(KEY)) if near.few else near.frame().select(*KEY).toArrow()
        older = self._before(self._accepted, at).since(table.clock, self._since).where(time < kept + _ZONES)
        self._append(table, older, commit, self._job.masking if self._job.masks else None, keys)
        self._number_all(self._job.of_lines.tables, commit)

    def _append(
        self,
        table: Table,
        rows: Rows,
        commit: Commit,
        changed: Vectorized | None = None,
        left_out: pa.Table | None = None,
    ) -> None:
        """Adds rows of the table itself, with columns `changed`, except those with keys in `left_out`."""
        plain = replace(table, columns=tuple(replace(each, of="") for each in table.columns))
        work = Work(validation=changed, appends=[(plain, ALL)], left_out=left_out)
        with rows.processed(work, self._staged, f"{commit.writer}-{commit.number:05d}") as batch:
            batch.append(self._staged, plain, ALL, commit)

    def _replace(self, table: Table, rows: pa.Table) -> None:
        """Stages the rows in place of those that are staged."""
        self._staged.ensure(table)
        self._staged.replace(table, lambda: iter((rows,)), self._next())

    def _delete(self, table: Table, condition: str) -> None:
        self._beside.delta(table).delete(condition)

    def _number_all(self, tables: Sequence[Table], commit: Commit) -> None:
        """Gives the tables that got no rows the commit's number, too, such as silver.rejected."""
        for table in tables:
            if self._staged.committed(table, commit.writer) < commit.number:
                self._staged.append_arrow(table, table.arrow_schema.empty_table(), commit)

    def _pruned(self, state: Staged) -> Staged:
        """The same without staged rows of sessions of which earlier lines may be gone."""
        if state.sessions_from:
            for table in (table for each, _ in state.derivations if each.whole for table in each.tables):
                self._delete(table, f"{table.time} < '{iso(state.sessions_from)}'")
        return state

    def compare(
        self, state: Staged, followed: Sequence[Table], after: Mapping[str, int] | None
    ) -> Iterator[Changed]:
        """Compares the rebuilt tables, and those that follow them, with the versions `after`, or with the staged
        tables."""
        before, pairs = state.snapshot, []
        for table, name, since in (*state.tables, *((table, table.time, None) for table in followed)):
            old = self._live(table, before.versions)
            new = self._live(table, after) if after is not None else self.read_staged(table)
            if after is None and since is not None:
                new = new + old.where(column(name) < since)
            pairs.append((table, old, new))
        yield from itertools.chain.from_iterable(itertools.starmap(differences, pairs))
        yield from itertools.chain.from_iterable(
            revalued(*pair) for pair in pairs if pair[0] is self._accepted
        )

    def _make(self, state: Staged, derivation: Derivation, source: Rows, since: datetime | None) -> Staged:
        for table in derivation.tables:
            self._staged.ensure(table)
        source = source.since(derivation.time, since)
        names = ", ".join(table.name for table in derivation.tables)
        parts = source.ranges(derivation.time, CHUNK_ROWS)
        before = staged_parts(self._staged, derivation.tables, Commit(WRITER, self._number), len(parts))
        self._job.report(names, before, len(parts))
        for done, part in enumerate(parts, start=1):
            if self._put(state, derivation, source.where(part)):
                crash_point("rebuild:staging")
                self._job.report(names, done, len(parts))
        return replace(state, derivations=(*state.derivations, (derivation, since)))

    def _put(self, state: Staged, derivation: Derivation, rows: Rows) -> bool:
        """Stages rows; False where a rebuild that was killed has staged them."""
        commit = self._next()
        if all(self._staged.committed(table, WRITER) >= commit.number for table in derivation.tables):
            return False
        chosen = derivation.without_repeated(state.surplus)
        chosen.put(rows, self._staged, self._newest(state), commit)
        self._number_all(derivation.tables, commit)
        return True

    def _next(self) -> Commit:
        self._number += 1
        return Commit(WRITER, self._number)

    def _newest(self, state: Staged) -> dict[str, datetime]:
        if state.corrections:
            spans = {site: newest for site, (_, newest) in state.corrections.spans.items()}
        else:
            rows = self._store.read(SITES, columns=["site", "newest_event_time"]).to_pylist()
            spans = {row["site"]: row["newest_event_time"] for row in rows}
        return {site: newest for site, newest in spans.items() if newest is not None}

    def _live(self, table: Table, versions: Mapping[str, int | None]) -> Rows:
        return Rows(lambda: self._home.spark, (Slice(self._home.lakehouse, table, versions[table.name]),))

    def _before(self, table: Table, at: Snapshot) -> Rows:
        """The live rows of the lines before a snapshot."""
        return self._live(table, at.versions).where(~at.later())

    def read_staged(self, table: Table) -> Rows:
        """The staged rows of a table."""
        return Rows(lambda: self._home.spark, (Slice(self._beside, table),))

    def _accepted_after(self, at: Snapshot) -> Rows:
        """The accepted lines before the snapshot, after the rebuild. A rebuild that was killed may have staged later
        ones."""
        table = self._accepted
        staged, earlier = self.read_staged(table).where(~at.later()), self._before(table, at)
        return staged + earlier.where(column(table.clock) < self._since) if self._since else staged

    def _require_no_redelivery(self, at: Snapshot, now: Snapshot) -> None:
        """Raises TableError if the running pipeline accepted another delivery of a newly accepted line meanwhile."""
        lines, accepted = self._job.of_lines.source, self._accepted
        tail = self._live(lines, now.versions).where(at.later())
        before = self._before(lines, at), self._accepted_after(at), self._before(accepted, at)
        if redelivery.collides(tail, self._live(accepted, now.versions), *before):
            raise TableError(
                "a line that the rebuild accepts was delivered again while it ran", "Start the rebuild again."
            )

    def _first_touched(self, at: Snapshot) -> datetime | None:
        """The earliest event time of the revalidated lines, in the old or the new result."""
        table = self._accepted
        lines = self._before(table, at).since(table.clock, self._since)
        return min((row["first"] for row in spans(lines + self.read_staged(table)).values()), default=None)
