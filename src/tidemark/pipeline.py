"""The composition root: the home of a pipeline, and its flows. The only module that imports the layers.

Streams and rebuilds need Spark, and are imported on first use. The recipes do not need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from bronze import access_log
from silver import requests
from tidemark.contract.aggregation import Aggregation, Mergeable, Newest
from tidemark.contract.quality_tables import SITES
from tidemark.contract.quality_tables import TABLES as QUALITY_TABLES
from tidemark.contract.registry import tables
from tidemark.contract.store import Store, Where
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.engine.work import ALL, PARTS_OF_LINES, Part, Work
from tidemark.errors import SettingError, TidemarkError
from tidemark.home import ACTIVITY, QUERY_VERSIONS, REQUESTS, Home
from tidemark.parse.columns import Knowledge
from tidemark.parse.custom import knowledge_of
from tidemark.privacy.masking import Masking
from tidemark.privacy.requests import masked_requests
from tidemark.privacy.salts import require_lasting_home
from tidemark.settings import Settings
from tidemark.stream.accounting import SiteClocks
from tidemark.stream.batch_size import BatchSize
from tidemark.stream.commits import Recipe
from tidemark.stream.following import followers_of
from tidemark.stream.schema_check import require_visitor_key

if TYPE_CHECKING:
    from tidemark.operate.rebuild import Rebuild, Report
    from tidemark.stream.flow import Flow

LAYER_TABLES = tables()
TABLES: tuple[Table, ...] = (*LAYER_TABLES, *QUALITY_TABLES)

_CLOCKS = "clocks"
# More of them than lines stay in the driver: executors take every core at once, and fresh lines would wait.
_TIMES_LOCAL_ROWS = 3


@dataclass(frozen=True)
class Pipeline(Home):
    """The home of a pipeline: the tables of the layers and of data quality, and the flows that make them.

    With `renew_key` the tables are rebuilt right afterwards: the visitor key may differ from theirs, and is created if
    it is missing.
    """

    renew_key: bool = False

    @classmethod
    def of(cls, settings: Settings, tables: Sequence[Table] = (), *, renew_key: bool = False) -> Self:
        """The pipeline of the settings, with all tables unless some are given. Raises SettingError."""
        home = replace(super().of(settings, tables or TABLES), renew_key=renew_key)
        return replace(home, readers={home.graph.accepted.name: [home.checkpoint(ACTIVITY)]})

    @cached_property
    def key(self) -> bytes:
        """The visitor key. Raises TableError if it is missing, or is not that of the tables, and SettingError where the
        home does not stay: without a setting of the key, because one made there would differ on the next cluster, and
        for anonymous lines."""
        require_lasting_home(self.settings)
        if not self.lakehouse.can.keeps_home and not self.settings.meaning.visitor_key:
            raise SettingError(
                f"tables in {self.lakehouse.name} need a visitor_key that stays",
                "Set TIDEMARK_VISITOR_KEY, from a secret.",
            )
        return require_visitor_key(self, renew=self.renew_key)

    @cached_property
    def flows(self) -> tuple[Flow, ...]:
        """The flows in the order of the data. Raises as `key`."""
        return self.requests_flow, self.activity_flow

    @property
    def rules_version(self) -> str:
        """The `rules_version` of lines that are read now. Raises as `key`."""
        return self._knowledge.version

    def validation(self, *, again: bool = False) -> Vectorized:
        """Turns lines into validated lines; `again` those of bronze. Raises as `key`."""
        return requests.validation(self._knowledge, self._masking, again=again)

    def no_lines(self, validation: Vectorized) -> pa.Table:
        """No lines, with the columns that a validation needs."""
        return access_log.TABLE.arrow_schema.empty_table().select(list(validation.inputs))

    def require_key(self) -> None:
        """Raises as `key`."""
        _ = self.key

    def warm_up(self) -> None:
        """Loads the enrichment data, so that the first batch need not wait for it, which reports any error."""
        with suppress(TidemarkError, OSError):
            validation = self.validation()
            validation.add(self.no_lines(validation))

    def rebuild(
        self, report: Report = lambda tables, done, total: None, *, after_version: int = -1
    ) -> Rebuild:
        """A rebuild of tables. Raises as `key`."""
        from tidemark.operate.rebuild import Rebuild

        masking = masked_requests(self._masking)
        return Rebuild(self, self.validation(again=True), masking, self.rules_version, after_version, report)

    # Rows of bronze from records of files.
    lines = staticmethod(access_log.lines)
    may_have_ids = staticmethod(access_log.may_have_ids)

    def requests(self, validation: Vectorized) -> Recipe:
        """How the tables with one row per line, and the tables with `now` that are made of accepted lines, are made of
        lines. Raises as `key`."""
        graph = self.graph
        aggregations = self._aggregations(graph.now)
        return Recipe(
            name=REQUESTS,
            work=Work(
                validation=validation,
                appends=[(table, PARTS_OF_LINES[table.lines]) for table in graph.appends],
                aggregations={table.name: (each, PARTS_OF_LINES["accepted"]) for table, each in aggregations},
            ),
            upserts=aggregations,
            clocks=SITES.name,
            accounted=True,
        )

    @cached_property
    def activity(self) -> Recipe:
        """How the other tables are made of the rows of silver.requests."""
        later = self._aggregations(self.graph.later)
        aggregations: dict[str, tuple[Mergeable, Part]] = {table.name: (each, ALL) for table, each in later}
        return Recipe(
            name=ACTIVITY,
            work=Work(aggregations={**aggregations, _CLOCKS: (SiteClocks(), ALL)}),
            upserts=later,
            clocks=_CLOCKS,
            known=partial(_known_newest, self.store),
            followers=followers_of(self),
        )

    @cached_property
    def requests_flow(self) -> Flow:
        """The flow from Kafka to the tables of `requests`."""
        from tidemark.stream.flow import Flow
        from tidemark.stream.sources import TopicSource

        settings, validation = self.settings, self.validation()
        return Flow(
            **vars(self.requests(validation)),
            version=QUERY_VERSIONS[REQUESTS],
            source=TopicSource(settings.kafka, BatchSize(settings.batches, settings.spark), access_log.rows),
            prepare=access_log.access_log,
            local_rows=settings.batches.local_rows,
            schema=self.no_lines(validation).schema,
        )

    @cached_property
    def activity_flow(self) -> Flow:
        """The flow from silver.requests to the tables of `activity`."""
        from tidemark.stream.flow import Flow
        from tidemark.stream.sources import TableSource

        batches, recipe = self.settings.batches, self.activity
        columns = tuple(
            dict.fromkeys(name for each, _ in recipe.work.aggregations.values() for name in each.needs)
        )
        return Flow(
            **vars(recipe),
            version=QUERY_VERSIONS[ACTIVITY],
            source=TableSource(self, self.graph.accepted, columns),
            prepare=lambda rows: rows.select(*columns),
            interval_seconds=batches.derive_interval_seconds,
            patient=True,
            local_rows=_TIMES_LOCAL_ROWS * batches.local_rows,
        )

    @cached_property
    def _knowledge(self) -> Knowledge:
        return knowledge_of(self.settings, self.key)

    @cached_property
    def _masking(self) -> Masking:
        masking = Masking.of(self.settings, self.key)
        if self.settings.privacy.salted and not self.settings.spark.is_local:
            return replace(masking, salts=masking.salts.marked())
        return masking

    def _aggregations(self, tables: Sequence[Table]) -> list[tuple[Table, Aggregation]]:
        return [(table, table.aggregation(self.settings.meaning)) for table in tables if table.aggregation]


def _known_newest(store: Store, sites: Sequence[str]) -> Newest:
    """Newest event times of these sites, from quality.sites."""
    where: Where = [[("site", "in", list(sites))]]
    rows = store.read(SITES, where, ["site", "newest_event_time"]).to_pylist() if sites else []
    return {row["site"]: row["newest_event_time"] for row in rows if row["newest_event_time"]}
