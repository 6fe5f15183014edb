"""Recomputes catalog tables from bronze, with the pipeline stopped.

Every table is recomputed beside the live one, then replaces it in one commit. Several
tables need several commits: repeat an interrupted rebuild. It recomputes from bronze again, and
corrects only the remaining differences of the accounts, so a repetition changes nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame

from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.store import Commit
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.home import Home
from tidemark.operate import redelivery
from tidemark.operate.corrections import Corrections, correction, spans
from tidemark.operate.derivation import Derivation, together
from tidemark.operate.difference import Changed, differences
from tidemark.operate.ranges import time_ranges
from tidemark.operate.rebuild import CHUNK_ROWS, Report
from tidemark.operate.revalued import revalued
from tidemark.operate.rows import Rows, Slice
from tidemark.store.catalog import SparkStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.spark_schema import spark_schema

_WRITER = "rebuild"
_SUFFIX = "__rebuild"


@dataclass
class CatalogRebuild:
    """A rebuild of tables of a catalog schema, with this `validation` of lines."""

    home: Home
    validation: Vectorized
    report: Report
    _number: int = 0
    _newest: dict[str, datetime] = field(default_factory=dict)

    @cached_property
    def of_lines(self) -> Derivation:
        """The validation of all lines again."""
        return Derivation.of_lines(self.home, self.validation)

    def tables(self, names: Sequence[str]) -> list[Table]:
        """The named tables, and all that is made from them."""
        return [table for derivation in self._work(names) for table in derivation.tables]

    def run(self, names: Sequence[str], *, dry_run: bool) -> list[Changed]:
        """Rebuilds the named tables and all that is made from them; what changed, by table and day.

        The caller sees to it that every line in bronze is in the other tables, and that nobody writes.
        """
        spark = self.home.spark
        live, staged = SparkStore(spark, self.home.lakehouse), SparkStore(spark, self._beside)
        work = self._work(names)
        judged = self.of_lines in work
        self._newest = {
            row["site"]: row["newest_event_time"]
            for row in live.read(SITES, columns=["site", "newest_event_time"]).to_pylist()
            if row["newest_event_time"]
        }
        try:
            for derivation in work:
                self._stage(staged, derivation, judged)
            tables = self.tables(names)
            changed = list(self._compare(tables))
            if not dry_run:
                for table in tables:
                    self._replace(table, spark.table(self._beside.sql_name(table)))
                if judged:
                    self._correct(live)
            return changed
        finally:
            for derivation in work:
                for table in derivation.tables:
                    self._drop(table)

    def _work(self, names: Sequence[str]) -> list[Derivation]:
        judged = any(table.name in names for table in self.of_lines.tables)
        of_accepted = Derivation.of_accepted(self.home)
        chosen = [each for each in of_accepted if judged or any(t.name in names for t in each.tables)]
        return [*([self.of_lines] if judged else []), *(each for each, _ in together(chosen))]

    @property
    def _beside(self) -> Lakehouse:
        return replace(self.home.lakehouse, suffix=_SUFFIX)

    def _stage(self, staged: SparkStore, derivation: Derivation, judged: bool) -> None:
        for table in derivation.tables:
            self._drop(table)
            staged.ensure(table)
        anew = judged and not derivation.validates
        source = self._rows(derivation.source, self._beside if anew else self.home.lakehouse)
        # Lines that are accepted already under another delivery of theirs.
        surplus: pa.Table | None = None
        if derivation.validates:
            before = self._rows(derivation.tables[0], self.home.lakehouse)
            days = self.home.settings.meaning.duplicate_days
            surplus = redelivery.surplus(source, derivation.validation, before, None, days)
        chosen = derivation.without_repeated(surplus)
        parts = time_ranges(source, derivation.time, CHUNK_ROWS)
        names = ", ".join(table.name for table in derivation.tables)
        self.report(names, 0, len(parts))
        for done, part in enumerate(parts, start=1):
            self._number += 1
            chosen.put(source.where(part), staged, self._newest, Commit(_WRITER, self._number))
            self.report(names, done, len(parts))
        if derivation.validates:
            starts = spans(self._rows(self.of_lines.tables[0], self._beside))
            self._newest = {site: row["newest"] for site, row in starts.items()}

    def _compare(self, tables: Sequence[Table]) -> Iterator[Changed]:
        for table in tables:
            old, new = (self._rows(table, each) for each in (self.home.lakehouse, self._beside))
            yield from list(differences(table, old, new))
            if table is self.of_lines.tables[0]:
                yield from list(revalued(table, old, new))

    def _rows(self, table: Table, lakehouse: Lakehouse) -> Rows:
        return Rows(lambda: self.home.spark, (Slice(lakehouse, table),))

    def _replace(self, table: Table, rows: DataFrame) -> None:
        rows.select(*table.column_names).write.format("delta").mode("overwrite").saveAsTable(
            self.home.lakehouse.sql_name(table)
        )

    def _correct(self, live: SparkStore) -> None:
        """Corrects the accounting tables by their differences from the rebuilt tables."""
        accepted, rejected = self.of_lines.tables
        lakehouse, spark = self.home.lakehouse, self.home.spark
        of_sites = spans(self._rows(accepted, lakehouse))
        others = spark.table(lakehouse.sql_name(rejected)).groupBy("site").count().collect()
        counts = {
            "accepted": {site: row["rows"] for site, row in of_sites.items()},
            "rejected": {row["site"]: row["count"] for row in others},
        }
        times = {site: (row["first"], row["newest"]) for site, row in of_sites.items()}
        sites = live.read(SITES)
        more = {
            name: {r["site"]: counted.get(r["site"], 0) - r[name] for r in sites.to_pylist()}
            for name, counted in counts.items()
        }
        corrections = Corrections(more["accepted"], more["rejected"], times)
        changed = corrections.sites(sites, SITES)
        self._replace(SITES, spark.createDataFrame(changed, spark_schema(SITES)))
        accounted: pa.Table = live.read(ACCOUNTS, columns=["accepted", "rejected"])
        lacking = {
            name: sum(counted.values()) - sum(accounted[name].to_pylist()) for name, counted in counts.items()
        }
        if any(lacking.values()):
            entry = Corrections({"": lacking["accepted"]}, {"": lacking["rejected"]}, {})
            live.append_arrow(ACCOUNTS, correction(live, ACCOUNTS, _WRITER, entry))

    def _drop(self, table: Table) -> None:
        self.home.spark.sql(f"DROP TABLE IF EXISTS {self._beside.sql_name(table)}")
