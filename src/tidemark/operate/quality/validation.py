"""Runs Great Expectations: one ephemeral context, suites built once, results as rows of quality.results.

Imports Great Expectations, which takes seconds: import this module only where a suite is about to run.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)

from tidemark.contract.table import Table
from tidemark.operate.quality.data_docs import make_offline
from tidemark.operate.quality.facts import KEY_RULE
from tidemark.operate.quality.suite import row_suite, rows_name, table_suites
from tidemark.settings.sections import UpkeepSettings

# Counts only: values of failing rows may be personal data, and would be collected.
_FORMAT = {"result_format": "BASIC", "partial_unexpected_count": 0}


class Validation:
    """Validates facts about tables against the suites of `tables`.

    With `for_docs` all results stay in memory until `write_docs`: not for a process that runs on.
    """

    def __init__(self, tables: Sequence[Table], upkeep: UpkeepSettings, *, for_docs: bool = False) -> None:
        self._context = gx.get_context(
            mode="ephemeral",
            # The default configuration creates a temporary directory and never removes it.
            project_config=DataContextConfig(
                store_backend_defaults=InMemoryStoreBackendDefaults(), analytics_enabled=False
            ),
        )
        self._context.variables.progress_bars = ProgressBarsConfig(globally=False)
        self._for_docs = for_docs
        self._checks: dict[str, gx.ValidationDefinition] = {}
        self._whole: dict[str, list[gx.ExpectationSuite]] = {}
        self._facts = self._context.data_sources.add_pandas("facts")
        for table in tables:
            if table.has_row_checks:
                self._add(row_suite(table))
                self._add(row_suite(table, with_key=False))
            self._whole[table.name] = table_suites(table, upkeep)
            for suite in self._whole[table.name]:
                self._add(suite)

    def rows(self, table: Table, unexpected: Mapping[str, int | str], count: int) -> list[dict[str, Any]]:
        """Results for `count` rows of the table, as rows of quality.results without its run. `unexpected` has, by rule,
        the number of rows that break it, or why it is unknown."""
        results = self._validate(rows_name(table, KEY_RULE in unexpected), unexpected)
        return [_row(table, result, f"{_unexpected(result):,} of {count:,} rows") for result in results]

    def whole(self, table: Table, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Results for facts about the table; expectations without facts are skipped."""
        results = []
        for suite in self._whole[table.name]:
            needed = {name: facts[name] for name in (suite.expectations[0].meta or {})["facts"]}
            if None not in needed.values():
                validated = self._validate(suite.name, needed)
                results += [_row(table, result, _observed(needed)) for result in validated]
        return results

    def write_docs(self, directory: Path) -> Path:
        """Writes Great Expectations' Data Docs of all suites and results. Returns the path of the first page."""
        shutil.rmtree(directory, ignore_errors=True)
        self._context.add_data_docs_site(
            "tidemark",
            {
                "class_name": "SiteBuilder",
                "store_backend": {
                    "class_name": "TupleFilesystemStoreBackend",
                    "base_directory": str(directory),
                },
                "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            },
        )
        self._context.build_data_docs(site_names=["tidemark"])
        return make_offline(directory)

    def _add(self, suite: gx.ExpectationSuite) -> None:
        suite = self._context.suites.add(suite)
        batch = self._facts.add_dataframe_asset(suite.name).add_batch_definition_whole_dataframe(suite.name)
        self._checks[suite.name] = self._context.validation_definitions.add(
            gx.ValidationDefinition(name=suite.name, data=batch, suite=suite)
        )

    def _validate(self, name: str, facts: Mapping[str, Any]) -> list[Any]:
        check = self._checks[name]
        parameters = {"dataframe": pd.DataFrame([facts])}
        if self._for_docs:
            result = check.run(batch_parameters=parameters, result_format=_FORMAT)
        else:
            # Unlike `run`, this keeps no result.
            batch = check.data.get_batch(batch_parameters=parameters)
            result = batch.validate(check.suite, result_format=_FORMAT)
        return list(result.results)


def _row(table: Table, result: Any, observed: str) -> dict[str, Any]:
    expectation = result.expectation_config
    error = _error(result)
    return {
        "table": table.name,
        "expectation": expectation.meta["rule"],
        "column": expectation.meta["column"],
        "severity": str(getattr(expectation.severity, "value", expectation.severity)),
        "success": bool(result.success),
        "observed_value": f"could not be checked: {error}" if error else observed,
        "unexpected_count": None if error else _unexpected(result),
        "details": expectation.notes,
    }


def _unexpected(result: Any) -> int:
    return int(result.result.get("unexpected_count", not result.success))


def _error(result: Any) -> str:
    """The error of an expectation that could not be evaluated, else empty. GX may nest it by metric."""
    info = result.exception_info or {}
    nested = [info, *(value for value in info.values() if isinstance(value, dict))]
    for part in nested:
        if part.get("raised_exception"):
            return str(part.get("exception_message")).strip().splitlines()[0]
    return ""


def _observed(facts: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value:,.2f}"
        if isinstance(value, float)
        else f"{name} {value}"
        if isinstance(value, str)
        else f"{name} {value:,}"
        for name, value in facts.items()
    )
