"""Recomputes catalog tables from bronze, with the pipeline stopped.

Every table is recomputed beside the live one, then replaces it in one commit. Several
tables need several commits: repeat an interrupted rebuild. It recomputes from bronze again, and
corrects only the remaining differences of the accounts, so a repetition changes nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemark.contract.store import Commit
from tidemark.contract.table import Table
from tidemark.operate import redelivery
from tidemark.operate.corrections import Corrections, correction, spans
from tidemark.operate.derivation import Derivation, together
from tidemark.operate.difference import Changed, differences
from tidemark.operate.ranges import time_ranges
from tidemark.operate.rebuild import CHUNK_ROWS, Say
from tidemark.operate.revalued import revalued
from tidemark.operate.rows import Rows, Slice
from tidemark.store.catalog import SparkStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream.following import Follower

_WRITER = "rebuild"
_SUFFIX = "__rebuild"


@dataclass
class CatalogRebuild:
    """A rebuild of tables of a catalog schema. `judging` makes silver.requests and silver.rejected, `derived` the
    rest, and `followers` follow these; `accounts` and `sites` are the accounting tables."""

    spark: SparkSession
    house: Lakehouse
    judging: Derivation
    derived: Sequence[Derivation]
    accounts: Table
    sites: Table
    followers: Sequence[Follower]
    duplicate_days: int
    say: Say
    _number: int = 0
    _newest: dict[str, datetime] = field(default_factory=dict)

    def tables(self, names: Sequence[str]) -> list[Table]:
        """The named tables, and all that is made from them."""
        return [table for derivation in self._work(names) for table in derivation.tables]

    def run(self, names: Sequence[str], *, dry_run: bool) -> list[Changed]:
        """Rebuilds the named tables and all that is made from them; what changed, by table and day.

        The caller sees to it that every line in bronze is in the other tables, and that nobody writes.
        """
        live = SparkStore(self.spark, self.house)
        staged = SparkStore(self.spark, self._beside)
        work = self._work(names)
        judged = self.judging in work
        self._newest = {
            row["site"]: row["newest_event_time"]
            for row in live.read(self.sites, columns=["site", "newest_event_time"]).to_pylist()
            if row["newest_event_time"]
        }
        try:
            for derivation in work:
                self._stage(staged, derivation, judged)
            tables = self.tables(names)
            found = list(self._compare(tables))
            if not dry_run:
                for table in tables:
                    self._replace(table, self.spark.table(self._beside.sql_name(table)))
                if judged:
                    self._correct(live)
            return found
        finally:
            for derivation in work:
                for table in derivation.tables:
                    self._drop(table)

    def _work(self, names: Sequence[str]) -> list[Derivation]:
        judged = any(table.name in names for table in self.judging.tables)
        chosen = [d for d in self.derived if judged or any(t.name in names for t in d.tables)]
        return [*([self.judging] if judged else []), *(each for each, _ in together(chosen))]

    @property
    def _beside(self) -> Lakehouse:
        return replace(self.house, suffix=_SUFFIX)

    def _stage(self, staged: SparkStore, derivation: Derivation, judged: bool) -> None:
        for table in derivation.tables:
            self._drop(table)
            staged.ensure(table)
        anew = judged and derivation is not self.judging
        source = self._rows(derivation.source, self._beside if anew else self.house)
        # Lines that are accepted already under another delivery of theirs.
        surplus: pa.Table | None = None
        if derivation is self.judging:
            before = self._rows(derivation.tables[0], self.house)
            surplus = redelivery.surplus(source, derivation.judge, before, None, self.duplicate_days)
        chosen = derivation.without_repeated(surplus)
        parts = time_ranges(source, derivation.time, CHUNK_ROWS)
        names = ", ".join(table.name for table in derivation.tables)
        self.say(names, 0, len(parts))
        for done, part in enumerate(parts, start=1):
            self._number += 1
            chosen.put(source.where(part), staged, self._newest, Commit(_WRITER, self._number))
            self.say(names, done, len(parts))
        if derivation is self.judging:
            found = spans(self._rows(self.judging.tables[0], self._beside))
            self._newest = {site: row["newest"] for site, row in found.items()}

    def _compare(self, tables: Sequence[Table]) -> Iterator[Changed]:
        for table in tables:
            old, new = (self._rows(table, house) for house in (self.house, self._beside))
            yield from list(differences(table, old, new))
            if table is self.judging.tables[0]:
                yield from list(revalued(table, old, new))

    def _rows(self, table: Table, house: Lakehouse) -> Rows:
        return Rows(self.spark, (Slice(house, table),))

    def _replace(self, table: Table, rows: DataFrame) -> None:
        rows.select(*table.column_names).write.format("delta").mode("overwrite").saveAsTable(
            self.house.sql_name(table)
        )

    def _correct(self, live: SparkStore) -> None:
        """Corrects the accounting tables by their differences from the rebuilt tables."""
        accepted, rejected = self.judging.tables
        found = spans(self._rows(accepted, self.house))
        others = self.spark.table(self.house.sql_name(rejected)).groupBy("site").count().collect()
        counts = {
            "accepted": {site: row["rows"] for site, row in found.items()},
            "rejected": {row["site"]: row["count"] for row in others},
        }
        times = {site: (row["first"], row["newest"]) for site, row in found.items()}
        sites = live.read(self.sites)
        more = {
            name: {r["site"]: found.get(r["site"], 0) - r[name] for r in sites.to_pylist()}
            for name, found in counts.items()
        }
        corrections = Corrections(more["accepted"], more["rejected"], times)
        changed = corrections.sites(sites, self.sites)
        self._replace(self.sites, self.spark.createDataFrame(changed, self.sites.schema))
        accounted: pa.Table = live.read(self.accounts, columns=["accepted", "rejected"])
        lacking = {
            name: sum(found.values()) - sum(accounted[name].to_pylist()) for name, found in counts.items()
        }
        if any(lacking.values()):
            entry = Corrections({"": lacking["accepted"]}, {"": lacking["rejected"]}, {})
            live.append_arrow(self.accounts, correction(live, self.accounts, _WRITER, entry))

    def _drop(self, table: Table) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS {self._beside.sql_name(table)}")
