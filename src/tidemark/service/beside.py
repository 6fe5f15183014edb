"""Work beside the flows, or once after them: quality, upkeep, backfills, alerts and reports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from tidemark.local.records import read_record
from tidemark.loops import Side, attempted
from tidemark.operate import (
    backfill,
    goal_notes,
    journal,
    notes,
    observe,
    privacy_notes,
    quarantine,
    site_settings,
)
from tidemark.operate.observe import Observed
from tidemark.operate.quality import runner as quality
from tidemark.operate.rebuild import Rebuild, Report
from tidemark.operate.upkeep_schedule import keep
from tidemark.pipeline import Pipeline
from tidemark.privacy.salts import Salts
from tidemark.stream.metrics import Metrics

log = logging.getLogger("tidemark.service")


@dataclass(frozen=True)
class Beside:
    """The work beside the flows of a pipeline."""

    pipeline: Pipeline
    metrics: Metrics
    started: datetime = field(default_factory=partial(datetime.now, UTC))

    def note_changes(self) -> None:
        """Before the flows start, writes notes about changed goals and settings of sites. Raises TableError."""
        journal.drop_other(self.pipeline, self.pipeline.rules_version)
        goal_notes.complete(self.pipeline)  # a kill may have come between the count and its note
        goal_notes.announce(self.pipeline)
        site_settings.settle(self.pipeline)
        privacy_notes.note_changes(self.pipeline)

    def sides(self, *, once: bool) -> list[Side]:
        """Functions that run beside the flows until their event is set. Unless the flows run `once`, notes the time in
        which no pipeline ran. Raises SettingError for a wrong retention."""
        pipeline, settings, ran = self.pipeline, self.pipeline.settings, self.metrics.ran
        if not once:
            before = read_record(settings.run_directory / "pipeline.json")
            notes.write(settings, pipeline.store, notes.gap(before, self.started))
        checked = self.metrics.checked
        sides = [
            quality.watch(pipeline, checked, partial(ran, "quality")),
            observe.beside(self._observed, ran),
            lambda stopping: self._name_readable(),
        ]
        if pipeline.lakehouse.can.files:  # otherwise upkeep is a separate job
            completed = partial(goal_notes.complete, pipeline)
            sides.append(keep(pipeline, partial(ran, "upkeep")))
            sides.append(backfill.fill_beside(pipeline, self._rebuilding, completed))
        return sides

    def once(self) -> None:
        """The same work after the flows have caught up."""
        pipeline, settings = self.pipeline, self.pipeline.settings
        self._name_readable()
        Salts.of(settings).expire()
        privacy_notes.note_recounted_days(pipeline)
        if pipeline.lakehouse.can.files:
            backfill.fill(pipeline, self._rebuilding)
        goal_notes.complete(pipeline)
        observe.once(self._observed)
        if settings.upkeep.quality_interval_seconds:
            quality.once(pipeline)

    def is_filling(self) -> bool:
        """Whether tables are being filled with history, or recomputed, beside the flows."""
        return bool(self.pipeline.lakehouse.can.files) and backfill.pending(self.pipeline)

    def _name_readable(self) -> None:
        """At a start with other rules than those of the newest rows, logs how many rejected lines can be read now."""
        attempted(self._log_readable, "the look at rejected lines", log)

    def _log_readable(self) -> None:
        pipeline = self.pipeline
        before = notes.rules_before(pipeline.store, pipeline.graph.accepted, self.started)
        if before not in (None, pipeline.rules_version):
            lines = quarantine.readable(pipeline, pipeline.validation(), self.started)
            if lines.accepted:
                log.warning("%s", lines)

    @property
    def _rebuilding(self) -> Callable[[Report], Rebuild]:
        """Makes a rebuild. Lines that the tables have by now may be read with other settings."""
        accepted, store = self.pipeline.graph.accepted, self.pipeline.store
        version = store.version(accepted) if store.exists(accepted) else -1
        return partial(self.pipeline.rebuild, after_version=version)

    @property
    def _observed(self) -> Observed:
        return Observed(self.pipeline, self.pipeline.rules_version, self.started)
