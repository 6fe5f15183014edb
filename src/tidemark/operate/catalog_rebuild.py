"""Recomputes catalog tables from bronze, with the pipeline stopped.

Every table is recomputed beside the live one, then replaces it in one commit. Rows whose lines or requests retention
has deleted cannot be recomputed, and stay. Several tables need several commits: repeat an interrupted rebuild. It
recomputes from bronze again, and corrects only the remaining differences of the accounts, so a repetition changes
nothing more. Where retention has deleted rows, the accounts can lack the changes of an interrupted rebuild.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame

from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.table import Table
from tidemark.home import Home
from tidemark.operate.corrections import Corrections, correction, spans
from tidemark.operate.difference import Changed
from tidemark.operate.rebuild import Rebuild
from tidemark.operate.retention import iso, limited, record_kept
from tidemark.operate.snapshot import Snapshot
from tidemark.operate.staging import WRITER, Staging
from tidemark.store.catalog import SparkStore
from tidemark.store.spark_change import spark_schema
from tidemark.stream.following import catch_up, followers_of

_SUFFIX = "__rebuild"


def rebuild_in_catalog(job: Rebuild, names: Sequence[str], *, dry_run: bool) -> list[Changed]:
    """Rebuilds the named tables and all that is made from them; what changed, by table and day.

    The caller sees to it that every line in bronze is in the other tables, and that nobody writes.
    """
    home = job.home.on(job.home.spark)  # the store of before may have outdated commit numbers
    beside = replace(home.lakehouse, suffix=_SUFFIX)
    staging = _InCatalog(job, home, beside, SparkStore(home.spark, beside))
    tables = job.tables(names)
    try:
        staging.drop(tables)
        state = staging.stage(names, Snapshot(dict.fromkeys(home.graph.names), 0, {}, {}))
        changed = list(staging.compare(state, [], None))
        if not dry_run:
            corrections = staging.differing(state.corrections) if state.corrections else None
            for table, _, start in state.tables:
                if table.lines:
                    record_kept(home, table, datetime.now(UTC))
                _replace(home, table, staging.read_staged(table).frame(), start)
            if corrections:
                _correct(home, *corrections)
            catch_up(followers_of(home), home, recomputed=names)
        return changed
    finally:
        staging.drop(tables)


class _InCatalog(Staging):
    """Makes the tables beside those of a catalog schema."""

    def drop(self, tables: Sequence[Table]) -> None:
        """Drops staged tables."""
        for table in tables:
            self._home.spark.sql(f"DROP TABLE IF EXISTS {self._beside.sql_name(table)}")

    def _delete(self, table: Table, condition: str) -> None:
        self._home.spark.sql(f"DELETE FROM {self._beside.sql_name(table)} WHERE {condition}")

    def differing(self, changes: Corrections) -> tuple[Corrections, Corrections]:
        """The corrections of quality.sites and of quality.accounts: their differences from the staged tables, or, where
        retention has deleted rows, the `changes` between the live and the staged tables."""
        accepted, rejected = self._home.graph.accepted, self._home.graph.rejected
        if {accepted.name, rejected.name} & limited(self._home):
            return changes, changes
        of_sites = spans(self.read_staged(accepted))
        others = self.read_staged(rejected).frame().groupBy("site").count().collect()
        counts = {
            "accepted": {site: row["rows"] for site, row in of_sites.items()},
            "rejected": {row["site"]: row["count"] for row in others},
        }
        times = {site: (row["first"], row["newest"]) for site, row in of_sites.items()}
        sites = self._store.read(SITES).to_pylist()
        more = {
            name: {row["site"]: counted.get(row["site"], 0) - row[name] for row in sites}
            for name, counted in counts.items()
        }
        accounted = self._store.read(ACCOUNTS, columns=["accepted", "rejected"])
        lacking = {
            name: sum(counted.values()) - sum(accounted[name].to_pylist()) for name, counted in counts.items()
        }
        return (
            Corrections(more["accepted"], more["rejected"], times),
            Corrections({"": lacking["accepted"]}, {"": lacking["rejected"]}, {}),
        )


def _replace(home: Home, table: Table, rows: DataFrame, since: datetime | None = None) -> None:
    """Replaces the rows of a table, or those from `since` on."""
    writer = rows.select(*table.column_names).write.format("delta").mode("overwrite")
    if since:
        writer = writer.option("replaceWhere", f"{table.time} >= '{iso(since)}'")
    writer.saveAsTable(home.lakehouse.sql_name(table))


def _correct(home: Home, of_sites: Corrections, of_accounts: Corrections) -> None:
    changed = of_sites.sites(home.store.read(SITES), SITES)
    _replace(home, SITES, home.spark.createDataFrame(changed, spark_schema(SITES)))
    if of_accounts.changes:
        home.store.append_arrow(ACCOUNTS, correction(home.store, ACCOUNTS, WRITER, of_accounts))
