"""The gold tables that figures read are those that gold declares: windows, keys, and columns that are never NULL."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from tidemark import figures
from tidemark.contract import registry
from tidemark.figures.measures import NEVER_NULL, Gold
from tidemark.figures.selection import FIELDS
from tidemark.settings.sections import MeaningSettings

DECLARED = {table.name: table for table in registry.tables()}
MODULES = [
    importlib.import_module(f"tidemark.figures.{each.name}")
    for each in pkgutil.iter_modules(figures.__path__)
]
GOLDS = {each.table: each for module in MODULES for each in vars(module).values() if isinstance(each, Gold)}
# Long paths are stored shortened in these tables, so that a filter by path cannot use them.
SHORTENED = {"gold/bot_pages", "gold/errors", "gold/page_latency"}


@pytest.mark.parametrize("name", sorted(GOLDS))
def test_a_gold_table_is_read_as_it_is_declared(name: str) -> None:
    gold, table = GOLDS[name], DECLARED[name.replace("/", ".")]
    assert table.aggregation is not None
    assert gold.seconds == table.aggregation(MeaningSettings()).window_seconds
    assert gold.time == table.time and gold.time in table.key
    assert gold.bot == ("bot" in table.key)
    usable = set(table.key) & set(FIELDS) - ({"path"} if name in SHORTENED else set())
    assert gold.fields == usable


def test_every_table_of_counts_that_figures_need_is_among_them() -> None:
    assert {"gold/traffic", "gold/audience", "gold/goals"} <= set(GOLDS)


def test_columns_that_are_never_null_are_no_text_or_always_known() -> None:
    columns = {column.name: column for column in DECLARED["silver.requests"].columns}
    texts = {name for name in NEVER_NULL if columns[name].type == "string"}
    required = {rule.on for rule in DECLARED["silver.requests"].expects}
    assert texts - {"site"} <= required
