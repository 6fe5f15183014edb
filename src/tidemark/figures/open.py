"""Opens the tables that an environment names."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tidemark.figures.declared import home_in
from tidemark.figures.reader import Reader
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.reader_warehouse import open_warehouse


def open_reader(environment: Mapping[str, str] | None = None) -> Reader:
    """The reader that the environment asks for.

    A warehouse when TIDEMARK_CATALOG is set, tables at TIDEMARK_TABLES_LOCATION when that is set, otherwise those of
    TIDEMARK_HOME (default ./.tidemark).
    """
    environment = os.environ if environment is None else environment
    if environment.get("TIDEMARK_CATALOG"):
        return open_warehouse(environment)
    return DeltaReader(home_in(environment), environment.get("TIDEMARK_TABLES_LOCATION", ""))
