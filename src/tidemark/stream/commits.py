"""The commits of a batch: several tables, exactly once, wherever the work on the batch runs. Needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Aggregation, Mergeable, Newest
from tidemark.contract.quality_tables import SITES
from tidemark.contract.store import Commit
from tidemark.contract.table import Table
from tidemark.engine.batches import Batch
from tidemark.engine.work import ALL, Part, Work
from tidemark.home import Home
from tidemark.machine import commit_threads
from tidemark.stream.accounting import Account, Ledger, SiteCounts, account_facts
from tidemark.stream.changes import Known
from tidemark.stream.crash import crash_point
from tidemark.stream.deliveries import DELIVERY_IDS, Deliveries
from tidemark.stream.following import Follower, catch_up
from tidemark.stream.merge import merge_into

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IDS = "delivery ids"

# The steps of tables that follow others, by table; a commit of a batch returns them.
Steps = Mapping[str, Known]
Act = Callable[[], Steps]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the tables of a flow are made of a batch.

    `work` says what is made of the rows, and `upserts` are the tables that its aggregations of the same names are
    merged into: those for `now` are begun before any other. `clocks` names the aggregation with the newest event time
    of each site; `known` returns those of earlier batches for the sites of a batch, if a table needs them.

    `accounted`: the batches are lines, which are accounted for, and whose repeated deliveries are left out.
    `followers` are tables made of tables that the flow commits; they are brought up to date at the end of each batch,
    and with `catch_up`.
    """

    name: str
    work: Work
    upserts: Sequence[tuple[Table, Aggregation]]
    clocks: str
    known: Callable[[Sequence[str]], Newest] = lambda sites: {}
    accounted: bool = False
    followers: Sequence[Follower] = ()

    def work_on_lines(self, counts: SiteCounts) -> Work:
        """The work on lines that are accounted for: with their counts, and the delivery ids of accepted ones."""
        counted: dict[str, tuple[Mergeable, Part]] = {
            SITES.name: (counts, ALL),
            _IDS: (DELIVERY_IDS, Part("accepted")),
        }
        return replace(self.work, aggregations={**self.work.aggregations, **counted})

    def catch_up(self, home: Home, known: Mapping[str, Known] = MappingProxyType({})) -> None:
        """Brings the followers to the newest versions of their sources, under the batch lock. `known` as in
        `tidemark.stream.following.catch_up`."""
        crash_point(f"{self.name}:before-followers")
        catch_up(self.followers, home, known=known)


class Committer:
    """Commits one flow's batches to the home's store. Tables that have a batch's number skip it."""

    def __init__(self, recipe: Recipe, home: Home) -> None:
        self.recipe = recipe
        self._home = home
        self._store = store = home.store
        self._ledger: Ledger | None = None
        self._deliveries: Deliveries | None = None
        if recipe.accounted:
            meaning, graph = home.settings.meaning, home.graph
            self._ledger = Ledger(store, recipe.name, meaning.late_seconds)
            self._deliveries = Deliveries(
                store, home.lakehouse, graph.lines, graph.rejected, meaning.duplicate_days
            )
        self._threads = ThreadPoolExecutor(commit_threads(), thread_name_prefix=recipe.name)

    @property
    def counts(self) -> SiteCounts:
        """The aggregation that counts the lines of the next batch, of a recipe that accounts for them."""
        assert self._ledger
        return self._ledger.counts

    @property
    def work(self) -> Work:
        """The work on the next batch."""
        return self.recipe.work_on_lines(self.counts) if self._ledger else self.recipe.work

    def write(
        self,
        batch: Batch,
        commit: Commit,
        started: datetime,
        spark: SparkSession | None = None,
        threads: Executor | None = None,
    ) -> Mapping[str, Any]:
        """Commits a batch, on which `work` was done, in `threads` if they are given. With a Spark session, it reads
        earlier delivery ids. Returns the facts for `Progress.batch_done`. After a failure the same batch may be written
        again."""
        try:
            return self._write(batch, commit, started, spark, threads)
        except BaseException:
            if self._deliveries:  # it has taken the batch's lines for accepted
                self._deliveries.forget()
            raise

    def _write(
        self,
        batch: Batch,
        commit: Commit,
        started: datetime,
        spark: SparkSession | None,
        threads: Executor | None,
    ) -> Mapping[str, Any]:
        repeated = self._deliveries.repeated(batch.partial(_IDS), spark) if self._deliveries else None
        if repeated:
            batch = batch.without(repeated)
        recipe = self.recipe
        clocks = batch.partial(recipe.clocks)
        newest = _newest(recipe.known(clocks["site"].to_pylist()), clocks)
        acts: list[Act] = [
            *(
                partial(self._upsert, table, aggregation.at(newest), batch, commit)
                for table, aggregation in sorted(recipe.upserts, key=lambda upsert: not upsert[0].now)
            ),
            *(partial(self._append, table, part, batch, commit) for table, part in recipe.work.appends),
        ]
        with self._begun(acts, threads or self._threads) as commits:
            account = Account.of(clocks, len(repeated or ())) if self._ledger else None
        if recipe.followers:
            recipe.catch_up(self._home, {k: v for done in commits for k, v in done.result().items()})
        crash_point(f"{recipe.name}:before-ledger")
        if not (self._ledger and account):
            return _facts(clocks)
        self._ledger.commit(account, started, commit)
        return account_facts(account)

    def _append(self, table: Table, part: Part, batch: Batch, commit: Commit) -> Steps:
        if self._store.committed(table, commit.writer) < commit.number:
            batch.append(self._store, table, part, commit)
        return {}

    def _upsert(self, table: Table, aggregation: Aggregation, batch: Batch, commit: Commit) -> Steps:
        """Merges the batch into a table. Returns the steps of the tables that follow it, by table."""
        if self._store.committed(table, commit.writer) >= commit.number:
            return {}
        existing, change = merge_into(self._store, table, aggregation, batch.partial(table.name), commit)
        return {
            follower.table.name: {(commit.writer, commit.number): follower.step(existing, change)}
            for follower in self.recipe.followers
            if follower.source.name == table.name
        }

    @contextmanager
    def _begun(self, acts: Sequence[Act], threads: Executor) -> Iterator[Sequence[Future[Steps]]]:
        """Calls the functions in threads, in this order, beside the block, and ends after all of them."""
        futures = [threads.submit(self._committed, act) for act in acts]
        try:
            yield futures
        finally:
            # After a failure, too: the lock must not be released while others still commit.
            wait(futures)
        for future in futures:
            future.result()

    def _committed(self, act: Act) -> Steps:
        steps = act()
        crash_point(f"{self.recipe.name}:between-tables")
        return steps


def _newest(known: Newest, clocks: pa.Table) -> Newest:
    """The newest event time of each site of a batch, from earlier batches and this one."""
    newest = dict(known)
    for row in clocks.select(["site", "newest_event_time"]).to_pylist():
        if row["newest_event_time"]:
            newest[row["site"]] = max(
                row["newest_event_time"], newest.get(row["site"], row["newest_event_time"])
            )
    return newest


def _facts(clocks: pa.Table) -> Mapping[str, Any]:
    return {
        "rows": pc.sum(clocks["rows"]).as_py() or 0,
        "newest_event_time": pc.max(clocks["newest_event_time"]).as_py(),
        "newest_kafka_timestamp": pc.max(clocks["newest_ingested_at"]).as_py(),
    }
