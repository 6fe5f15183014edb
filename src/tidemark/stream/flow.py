"""A flow: a streaming query whose micro-batches run through the engine and commit several tables, exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tidemark.contract.quality_tables import SITES
from tidemark.contract.store import Commit
from tidemark.engine import executors
from tidemark.engine.batches import Batch, Local
from tidemark.engine.distributed import distributed
from tidemark.engine.work import Work
from tidemark.home import Home
from tidemark.machine import spare_threads, validation_threads
from tidemark.priority import give_way
from tidemark.stream.commits import Committer, Recipe
from tidemark.stream.query import Facts, Query
from tidemark.stream.sources import Source

# A batch of a flow that may wait leaves cores to one that may not, unless it has more rows: then work has piled up.
_SPARING_ROWS = 600_000
# By how much the threads of its commits lower their priority.
_NICE = 10
log = logging.getLogger("tidemark.stream")


@dataclass(frozen=True, kw_only=True)
class Flow(Recipe):
    """A flow: its source, and how tables are made of its batches.

    `version` changes when a checkpoint of the old query no longer fits. `prepare` is part of the streaming query, so
    Spark analyses it once, not once per batch. A batch of up to `local_rows` is processed by the driver, a larger one
    by executors. `patient` as of `Query`. `schema`: of the prepared rows, as far as the work needs them.
    """

    version: int
    source: Source
    prepare: Callable[[DataFrame], DataFrame]
    local_rows: int
    interval_seconds: float = 0.0
    patient: bool = False
    schema: pa.Schema | None = None

    def checkpoint(self, home: Home) -> Path:
        """The path of the query's checkpoint."""
        return Path(home.lakehouse.checkpoint(self.name, self.version))

    def query(self, home: Home) -> Query:
        """The flow's streaming query, whose batches go to the home's store."""
        # What it knows of the tables is read with the first batch: by then they are there, and checked.
        writer = cache(lambda: BatchWriter(self, home))
        return Query(
            name=self.name,
            rows=lambda: self.prepare(self.source.stream(home.spark)),
            write=lambda prepared, commit: writer().write(prepared, commit),
            version=self.version,
            trigger={"processingTime": f"{self.interval_seconds:g} seconds"},
            size=self.source.size,
            lag=self.source.lag,
            patient=self.patient,
            commits=(*(table for table, _ in self.upserts), *([SITES] if self.accounted else [])),
        )

    def warm_up(self, home: Home) -> None:
        """Makes executors load their modules, if they will process the first batch because of many waiting rows. That
        batch reports any error."""
        if self.schema is None:
            return
        with suppress(Exception):
            if (self.source.lag(self.checkpoint(home)) or 0) > self.local_rows:
                executors.warm_up(self.work, self.schema, home.spark)


class BatchWriter:
    """Runs one flow's batches through the engine and commits them to the home's store."""

    def __init__(self, flow: Flow, home: Home) -> None:
        self.flow = flow
        self._home = home
        self._checkpoint = flow.checkpoint(home)
        self._committer = Committer(flow, home)
        self._spare = ThreadPoolExecutor(
            spare_threads(), thread_name_prefix=f"{flow.name}-spare", initializer=partial(give_way, _NICE)
        )
        self._validators = ThreadPoolExecutor(
            validation_threads(), thread_name_prefix=f"{flow.name}-validate"
        )

    def write(self, prepared: DataFrame, commit: Commit) -> Facts:
        """Commits a batch; tables that have its number skip it."""
        started = datetime.now(UTC)
        try:
            return self._written(prepared, commit, started)
        except (Py4JJavaError, PySparkException) as error:
            again = self.flow.source.again(error, prepared, self._checkpoint, commit.number)
            if again is None:
                raise
        log.info("batch %d of %s is read in another way", commit.number, self.flow.name)
        return self._written(again, commit, started)

    def _written(self, prepared: DataFrame, commit: Commit, started: datetime) -> Facts:
        rows = self.flow.source.rows(self._checkpoint, commit.number)
        sparing = bool(self.flow.interval_seconds) and rows is not None and rows <= _SPARING_ROWS
        fetched = None if rows is None else self._fetched(prepared, commit.number, rows)
        with self._batch_of(self._committer.work, prepared, commit, fetched, sparing) as batch:
            threads = self._spare if sparing else None
            return self._committer.write(batch, commit, started, prepared.sparkSession, threads)

    @contextmanager
    def _batch_of(
        self, work: Work, prepared: DataFrame, commit: Commit, fetched: pa.Table | None, sparing: bool
    ) -> Iterator[Batch]:
        """The batch in this process, where its rows are fetched, else in executors, half of them if it is `sparing`."""
        if fetched is not None:
            yield Local.of(work, fetched, self._validators)
            return
        label = f"{self.flow.name}-{commit.number:05d}"
        rows = self.flow.source.spread(prepared, self._checkpoint, commit.number, sparing=sparing)
        with distributed(work, rows, self._home.store, label) as batch:
            yield batch

    def _fetched(self, prepared: DataFrame, number: int, rows: int) -> pa.Table | None:
        """The rows of a batch that is known to be small."""
        if rows > self.flow.local_rows:
            return None
        try:
            fetched = self.flow.source.fetch(prepared, self._checkpoint, number)
        except (Py4JJavaError, PySparkException) as error:
            # The size of the rows is known only now. The limit exists for this case.
            if "spark.driver.maxResultSize" not in str(error):
                raise
            fetched = None
        if fetched is None:
            log.info("batch %d of %s has few rows, but long ones: executors take it", number, self.flow.name)
        return fetched
