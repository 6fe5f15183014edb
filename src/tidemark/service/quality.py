"""Checks tables against their expectations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tidemark.errors import TableError
from tidemark.operate import losses
from tidemark.operate.quality import runner as quality
from tidemark.operate.quality.check import Checker
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings


def check_quality(
    settings: Settings, names: Sequence[str] = (), since: datetime | None = None
) -> tuple[list[dict[str, Any]], Path]:
    """Checks the named tables (default: all), their rows written after `since`.

    Works beside a running pipeline. Returns the run's rows of quality.results and the Data Docs' first page.
    Raises TableError without tables or for an unknown name.
    """
    pipeline = Pipeline.of(settings)
    unknown = sorted(set(names) - set(pipeline.graph.names))
    if unknown:
        known = ", ".join(pipeline.graph.names)
        raise TableError(f"there is no table {', '.join(unknown)}", f"The tables are {known}.")
    losses.require_tables(pipeline)
    chosen = pipeline.only([table for table in pipeline.tables if not names or table.name in names])
    checker = Checker(chosen, for_docs=True)
    results = quality.run(chosen, partial(checker.all, since=since))
    return results, checker.write_docs()
