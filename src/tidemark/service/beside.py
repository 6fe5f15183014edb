"""What runs beside the flows, or once after them: quality, upkeep, backfills, alerts and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession

from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.local.process import read_record
from tidemark.operate import backfill, goal_notes, notes, observe, own_hosts
from tidemark.operate.goal_notes import GoalTables
from tidemark.operate.observe import Observed
from tidemark.operate.quality import runner as quality
from tidemark.operate.rebuild import Rebuild, Say
from tidemark.operate.upkeep_schedule import keep
from tidemark.pipeline import LAYER_TABLES, TABLES, positions, rebuilding, rules_version, streams
from tidemark.settings import Settings
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream.metrics import Metrics
from tidemark.stream.run import Side


@dataclass(frozen=True)
class Beside:
    """The work beside the flows of a home."""

    spark: SparkSession
    settings: Settings
    house: Lakehouse
    store: Store
    metrics: Metrics
    started: datetime = field(default_factory=partial(datetime.now, UTC))

    def note_changes(self) -> None:
        """Notes, before the flows start, which goals are others than at the last start, and which own hosts are others
        than those of history. Raises TableError."""
        self._complete_notes()  # a kill may have come between the count and its note
        goal_notes.announce(self.settings, self.house, self.store, _goal_tables())
        own_hosts.settle(self.settings, self.house, self.store, _lines())

    def _complete_notes(self) -> None:
        goal_notes.complete(self.settings, self.house, self.store, _goal_tables())

    def sides(self, *, once: bool) -> list[Side]:
        """Functions that run beside the flows until their event is set. Unless the flows run `once`, notes the time in
        which no pipeline ran. Raises SettingError for a wrong retention."""
        if not once:
            before = read_record(self.settings.run_directory / "pipeline.json")
            notes.write(self.settings, self.store, notes.gap(before, self.started))
        ran = self.metrics.ran
        found = [
            quality.watch(self.settings, self.store, TABLES, self.metrics.checked, partial(ran, "quality"))
        ]
        if self.house.can.files:  # otherwise upkeep is a separate job
            found.append(keep(self.settings, TABLES, streams(self.house), partial(ran, "upkeep")))
            filled = self._complete_notes
            found.append(backfill.fill_beside(self.spark, *self._history, filled))
        return [*found, observe.beside(self.settings, self.store, self._observed, ran)]

    def once(self) -> None:
        """The same work after the flows have caught up."""
        if self.house.can.files:
            backfill.fill(*self._history)
        self._complete_notes()
        observe.once(self.settings, self.store, self._observed)
        if self.settings.upkeep.quality_interval_seconds:
            quality.attempt(partial(quality.run_if_new, self.settings, self.store, TABLES))

    @property
    def _history(self) -> tuple[Settings, Lakehouse, Store, Table, Callable[[Say], Rebuild]]:
        """What `backfill.fill` takes. Lines of before the flows start may be read with other settings."""
        requests = _tables()["silver.requests"]
        there = self.store.version(requests) if self.store.exists(requests) else -1
        remaking = partial(rebuilding, self.spark, self.settings, self.house, after_version=there)
        return self.settings, self.house, self.store, _lines(), remaking

    @property
    def _observed(self) -> Observed:
        return Observed(_tables(), positions(self.house), rules_version(self.settings), self.started)


def is_filling(settings: Settings, house: Lakehouse, store: Store) -> bool:
    """Whether tables are being filled with history, or made anew, beside the flows."""
    return bool(house.can.files) and backfill.pending(settings, house, store, _lines())


def _tables() -> dict[str, Table]:
    return {table.name: table for table in LAYER_TABLES}


def _lines() -> Table:
    return _tables()["bronze.access_log"]


def _goal_tables() -> GoalTables:
    tables = _tables()
    return GoalTables(tables["silver.session_goals"], tables["gold.goals"])
