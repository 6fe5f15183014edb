"""A home: its settings, where its tables are, how they are made of each other, and the store that commits them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tidemark.contract.graph import Graph
from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.choose import open_store, without_spark
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUESTS, ACTIVITY = "requests", "activity"
# The version of each flow's query. Increment it when earlier checkpoints of the query become incompatible.
QUERY_VERSIONS = {REQUESTS: 1, ACTIVITY: 1}


@dataclass(frozen=True)
class Home:
    """A home and its tables, of the pipeline or of a job.

    `readers` has, by table, the checkpoints of the queries that stream the table. `session` and `opened` are the Spark
    session and the store in use; without them, each is opened when it is needed first.
    """

    settings: Settings
    lakehouse: Lakehouse
    graph: Graph
    readers: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    session: SparkSession | None = field(default=None, compare=False)
    opened: Store | None = field(default=None, compare=False)

    @classmethod
    def of(cls, settings: Settings, tables: Sequence[Table] = ()) -> Self:
        """The home of the settings with these tables. Raises SettingError."""
        return cls(settings, lakehouse.of(settings), Graph(tuple(tables)))

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables, whether or not they exist yet."""
        return self.graph.tables

    @cached_property
    def spark(self) -> SparkSession:
        """The Spark session. Raises PlatformError."""
        from tidemark.spark import spark_session  # not every installation has Spark

        return self.session or spark_session(self.settings)

    @cached_property
    def store(self) -> Store:
        """Reads and commits the tables; without Spark if delta-rs reaches them, unless a session is in use."""
        return self.opened or without_spark(self.lakehouse, lambda: self.spark)

    def checkpoint(self, flow: str) -> Path:
        """The checkpoint of a flow of the pipeline."""
        return Path(self.lakehouse.checkpoint(flow, QUERY_VERSIONS[flow]))

    def on(self, spark: SparkSession) -> Self:
        """The same home with a session, and with the store of the setting `store`. Raises SettingError."""
        return replace(self, session=spark, opened=open_store(self.settings.lakehouse, self.lakehouse, spark))

    def on_files(self) -> Self:
        """The same home with a store that reads and commits the tables' files without Spark."""
        return replace(self, opened=DeltaRsStore(self.lakehouse))

    def with_settings(self, settings: Settings) -> Self:
        """The same home with other settings of the same lakehouse."""
        return replace(self, settings=settings)

    def only(self, tables: Collection[Table]) -> Self:
        """The same home with these of its tables."""
        return replace(self, graph=Graph(tuple(table for table in self.tables if table in tables)))

    @property
    def plain(self) -> Home:
        """The same home, which can be sent to another process."""
        return Home(self.settings, lakehouse.of(self.settings), self.graph.plain, self.readers)
