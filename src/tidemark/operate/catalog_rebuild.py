"""Recomputes catalog tables from bronze, with the pipeline stopped.

Every table is recomputed beside the live one, then replaces it in one commit. Rows whose lines or requests retention
has deleted cannot be recomputed, and stay. Several tables need several commits: repeat an interrupted rebuild. It
recomputes from bronze again, and corrects only the remaining differences of the accounts, so a repetition changes
nothing more. Where retention has deleted rows, the accounts can lack the changes of an interrupted rebuild.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame

from tidemark.contract.expression import column
from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.home import Home
from tidemark.operate import redelivery, staging
from tidemark.operate.corrections import Corrections, correction, spans
from tidemark.operate.derivation import Derivation, together
from tidemark.operate.difference import Changed, differences
from tidemark.operate.ranges import iso, since_then, time_ranges
from tidemark.operate.rebuild import CHUNK_ROWS, Report
from tidemark.operate.retention import ceil, complete_from, expiry, limited, record_kept, unexpired
from tidemark.operate.revalued import revalued
from tidemark.operate.rows import Rows, Slice
from tidemark.store.catalog import SparkStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.spark_schema import spark_schema
from tidemark.stream import applied
from tidemark.stream.following import catch_up, followers_of
from tidemark.stream.table_state import recorded

_WRITER = "rebuild"
_SUFFIX = "__rebuild"


@dataclass
class CatalogRebuild:
    """A rebuild of tables of a catalog schema, with this `validation` of lines, and `masking` of requests whose lines
    are gone."""

    home: Home
    validation: Vectorized
    masking: Vectorized
    report: Report
    _number: int = 0
    _newest: dict[str, datetime] = field(default_factory=dict)

    @cached_property
    def of_lines(self) -> Derivation:
        """The validation of all lines again."""
        return Derivation.of_lines(self.home, self.validation, masks=self.masks)

    @cached_property
    def masks(self) -> bool:
        """Whether the lines themselves are to be masked, because the privacy settings of history are others."""
        state = recorded(self.home.lakehouse, self.home.graph.accepted.name)
        return applied.masks_history(self.home.settings, state)

    def tables(self, names: Sequence[str]) -> list[Table]:
        """The named tables, and all that is made from them."""
        return [table for derivation, _ in self._work(names) for table in derivation.tables]

    def run(self, names: Sequence[str], *, dry_run: bool) -> list[Changed]:
        """Rebuilds the named tables and all that is made from them; what changed, by table and day.

        The caller sees to it that every line in bronze is in the other tables, and that nobody writes.
        """
        home = self.home.on(self.home.spark)  # the store of before may have outdated commit numbers
        live, staged = home.store, SparkStore(home.spark, self._beside)
        work = self._work(names)
        validates = any(derivation.validates for derivation, _ in work)
        self._newest = {
            row["site"]: row["newest_event_time"]
            for row in live.read(SITES, columns=["site", "newest_event_time"]).to_pylist()
            if row["newest_event_time"]
        }
        replaced = [
            (table, self._replaced_from(derivation, since))
            for derivation, since in work
            for table in derivation.tables
        ]
        try:
            for derivation, since in work:
                self._stage(staged, derivation, since, validates)
            changed = list(self._compare(replaced))
            if not dry_run:
                corrections = self._corrections(live) if validates else None
                for table, start in replaced:
                    if table.lines:
                        record_kept(home, table, self._now)
                    rows = since_then(self._rows(table, self._beside), table.time, start)
                    self._replace(table, rows.frame(), start)
                if corrections:
                    self._correct(live, *corrections)
                catch_up(followers_of(home), home, recomputed=names)
            return changed
        finally:
            for table, _ in replaced:
                self._drop(table)

    def _work(self, names: Sequence[str]) -> list[tuple[Derivation, datetime | None]]:
        """The derivations of the tables, each with the start of the rows that it can make (None: the beginning)."""
        validates = any(table.name in names for table in self.of_lines.tables)
        of_accepted = Derivation.of_accepted(self.home)
        chosen = [each for each in of_accepted if validates or any(t.name in names for t in each.tables)]
        starts = [self._kept(self.home.graph.accepted)]
        if validates and not self.masks:  # figures of older requests stay as they are
            starts.append(self._kept(self.home.graph.lines))
        kept = max((start for start in starts if start), default=None)
        return [*([(self.of_lines, None)] if validates else []), *together(chosen, kept=kept)]

    @cached_property
    def _now(self) -> datetime:
        return datetime.now(UTC)

    def _kept(self, table: Table) -> datetime | None:
        return complete_from(self.home, table, self._now)

    def _replaced_from(self, derivation: Derivation, since: datetime | None) -> datetime | None:
        """The time from which on a derivation's tables get new rows (None: all). Sessions before it may lack lines."""
        kept = self._kept(self.home.graph.accepted)
        if not derivation.whole or not kept:
            return since
        return ceil(kept + timedelta(seconds=self.home.settings.meaning.session_gap_seconds), 3600)

    @property
    def _beside(self) -> Lakehouse:
        return replace(self.home.lakehouse, suffix=_SUFFIX)

    def _stage(
        self, staged: SparkStore, derivation: Derivation, since: datetime | None, validates: bool
    ) -> None:
        for table in derivation.tables:
            self._drop(table)
            staged.ensure(table)
        reads_staged = validates and not derivation.validates
        source = self._rows(derivation.source, self._beside if reads_staged else self.home.lakehouse)
        # Lines that are accepted already under another delivery of theirs.
        surplus: pa.Table | None = None
        before = self._rows(self.home.graph.accepted, self.home.lakehouse)
        if derivation.validates:
            days = self.home.settings.meaning.duplicate_days
            surplus = redelivery.surplus(source, self.validation, before, None, days)
        chosen = derivation.without_repeated(surplus)
        source = since_then(source, derivation.time, since)
        parts = time_ranges(source, derivation.time, CHUNK_ROWS)
        names = ", ".join(table.name for table in derivation.tables)
        self.report(names, 0, len(parts))
        for done, part in enumerate(parts, start=1):
            chosen.put(source.where(part), staged, self._newest, self._next())
            self.report(names, done, len(parts))
        if derivation.validates:
            if kept := self._kept(derivation.source):
                masking = self.masking if self.masks else None
                accepted = self.home.graph.accepted
                staging.append_older(staged, accepted, before, source, kept, self._next(), masking)
            for table in derivation.tables:
                if condition := expiry(self.home, table, self._now):
                    self.home.spark.sql(f"DELETE FROM {self._beside.sql_name(table)} WHERE {condition}")
            starts = spans(self._rows(self.home.graph.accepted, self._beside))
            self._newest = {site: row["newest"] for site, row in starts.items()}

    def _next(self) -> Commit:
        self._number += 1
        return Commit(_WRITER, self._number)

    def _compare(self, replaced: Sequence[tuple[Table, datetime | None]]) -> Iterator[Changed]:
        for table, start in replaced:
            old, new = (self._rows(table, each) for each in (self.home.lakehouse, self._beside))
            if start:
                new = since_then(new, table.time, start) + old.where(column(table.time) < start)
            yield from differences(table, old, new)
            if table is self.home.graph.accepted:
                yield from revalued(table, old, new)

    def _rows(self, table: Table, lakehouse: Lakehouse) -> Rows:
        return Rows(lambda: self.home.spark, (Slice(lakehouse, table),))

    def _replace(self, table: Table, rows: DataFrame, since: datetime | None = None) -> None:
        """Replaces the rows of a table, or those from `since` on."""
        writer = rows.select(*table.column_names).write.format("delta").mode("overwrite")
        if since:
            writer = writer.option("replaceWhere", f"{table.time} >= '{iso(since)}'")
        writer.saveAsTable(self.home.lakehouse.sql_name(table))

    def _corrections(self, live: Store) -> tuple[Corrections, Corrections]:
        """The corrections of quality.sites and of quality.accounts: their differences from the staged tables, or, where
        retention has deleted rows, those between the live and the staged tables."""
        accepted, rejected = self.home.graph.accepted, self.home.graph.rejected
        after = self._rows(accepted, self._beside)
        if {accepted.name, rejected.name} & limited(self.home):
            before = self._rows(accepted, self.home.lakehouse)
            changes = Corrections.of(before, after, unexpired(self.home, accepted, self._now))
            return changes, changes
        of_sites = spans(after)
        others = self._rows(rejected, self._beside).frame().groupBy("site").count().collect()
        counts = {
            "accepted": {site: row["rows"] for site, row in of_sites.items()},
            "rejected": {row["site"]: row["count"] for row in others},
        }
        times = {site: (row["first"], row["newest"]) for site, row in of_sites.items()}
        sites = live.read(SITES).to_pylist()
        more = {
            name: {row["site"]: counted.get(row["site"], 0) - row[name] for row in sites}
            for name, counted in counts.items()
        }
        accounted = live.read(ACCOUNTS, columns=["accepted", "rejected"])
        lacking = {
            name: sum(counted.values()) - sum(accounted[name].to_pylist()) for name, counted in counts.items()
        }
        return (
            Corrections(more["accepted"], more["rejected"], times),
            Corrections({"": lacking["accepted"]}, {"": lacking["rejected"]}, {}),
        )

    def _correct(self, live: Store, of_sites: Corrections, of_accounts: Corrections) -> None:
        changed = of_sites.sites(live.read(SITES), SITES)
        self._replace(SITES, self.home.spark.createDataFrame(changed, spark_schema(SITES)))
        if of_accounts.changes:
            live.append_arrow(ACCOUNTS, correction(live, ACCOUNTS, _WRITER, of_accounts))

    def _drop(self, table: Table) -> None:
        self.home.spark.sql(f"DROP TABLE IF EXISTS {self._beside.sql_name(table)}")
