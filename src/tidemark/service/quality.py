"""Checks tables against their expectations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tidemark.errors import TableError
from tidemark.operate.quality import runner as quality
from tidemark.operate.quality.check import Checker
from tidemark.pipeline import TABLES
from tidemark.service.requirements import lakehouse_with_tables
from tidemark.service.stores import store_of
from tidemark.settings import Settings


def check_quality(
    settings: Settings, names: Sequence[str] = (), since: datetime | None = None
) -> tuple[list[dict[str, Any]], Path]:
    """The `quality` command: checks the named tables (default: all), their rows written after `since`.

    Works beside a running pipeline. Returns the run's rows of quality.results and the Data Docs' first page.
    Raises TableError without tables or for an unknown name.
    """
    unknown = sorted(set(names) - {table.name for table in TABLES})
    if unknown:
        known = ", ".join(table.name for table in TABLES)
        raise TableError(f"there is no table {', '.join(unknown)}", f"The tables are {known}.")
    lakehouse_with_tables(settings)
    store = store_of(settings)
    chosen = [table for table in TABLES if not names or table.name in names]
    checker = Checker(settings, store, chosen, for_docs=True)
    return quality.run(settings, store, chosen, partial(checker.all, since=since)), checker.write_docs()
