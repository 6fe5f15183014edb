"""Compiles a table's contract to Great Expectations suites: one over its rows, one over facts about it.

Imports Great Expectations, which takes seconds: import this module only where a suite is about to run.
"""

from __future__ import annotations

from typing import Any

import great_expectations as gx
from great_expectations.expectations.core.expect_column_max_to_be_between import (
    ExpectColumnMaxToBeBetween,
)
from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import (
    ExpectColumnPairValuesToBeEqual,
)
from great_expectations.expectations.metadata_types import FailureSeverity

from tidemark.contract.table import Table
from tidemark.operate.quality.expectations import ExpectNoneUnexpected
from tidemark.operate.quality.facts import KEY_RULE, row_measures
from tidemark.settings.sections import UpkeepSettings

# Normal range of the last hour's volume, as a share of the usual.
USUAL_VOLUME = (0.25, 4.0)


def row_suite(table: Table, *, with_key: bool = True) -> gx.ExpectationSuite:
    """The checks for the rows of `table`: its expectations, and its key.

    Each has its name and column in `meta` and its words in `notes`.
    """
    key = ", ".join(table.key)
    rules = [(rule.name, rule.on, rule.about, rule.severity) for rule in table.expectations]
    if with_key:
        rules.append((KEY_RULE, key, f"One row per {key}, none of them NULL.", "critical"))
    measures = row_measures(table, with_key=with_key)
    expectations = [
        ExpectNoneUnexpected(
            rule=name,
            counted=measures[name].sql,
            about=about,
            severity=FailureSeverity(severity),
            notes=about,
            meta=_meta(name, on),
        )
        for name, on, about, severity in rules
    ]
    return gx.ExpectationSuite(name=rows_name(table, with_key), expectations=expectations)


def table_suites(table: Table, upkeep: UpkeepSettings) -> list[gx.ExpectationSuite]:
    """Expectations for `table` as a whole: one suite each, on one row of facts:
    `age_seconds` of its newest row, its `rows` and those `accounted` for, `of_usual` (a share), the number of `proxied`
    sites and their names."""
    suites: list[Any] = []
    if upkeep.freshness_limit_seconds and not table.quiet:
        limit = upkeep.freshness_limit_seconds
        suites.append(
            ExpectColumnMaxToBeBetween(
                column="age_seconds",
                max_value=limit,
                severity=FailureSeverity.WARNING,
                notes=f"The newest row is at most {limit:g} s old.",
                meta=_meta("fresh", table.clock, "age_seconds"),
            )
        )
    if table.accounted:
        suites.append(
            ExpectColumnPairValuesToBeEqual(
                column_A="rows",
                column_B="accounted",
                severity=FailureSeverity.CRITICAL,
                notes=f"The table has as many rows as quality.accounts says: {table.accounted}.",
                meta=_meta("rows_accounted_for", "", "rows", "accounted"),
            )
        )
    if table.volume:
        low, high = USUAL_VOLUME
        suites.append(
            ExpectColumnMaxToBeBetween(
                column="of_usual",
                min_value=low,
                max_value=high,
                severity=FailureSeverity.WARNING,
                notes=f"The last hour's {table.volume} are {low:g} to {high:g} times those of the same hour"
                " on the days before.",
                meta=_meta("usual_volume", table.volume, "of_usual"),
            )
        )
    if table.clients:
        suites.append(
            ExpectColumnMaxToBeBetween(
                column="proxied",
                max_value=0,
                severity=FailureSeverity.WARNING,
                notes="No private address or CDN has more than half of a site's requests. Else a proxy stands for your"
                " visitors: log X-Forwarded-For, and name your own proxies in `trusted_proxies`.",
                meta=_meta("no_proxy", table.clients, "proxied", "sites"),
            )
        )
    return [
        gx.ExpectationSuite(name=f"{table.name}.{expectation.meta['rule']}", expectations=[expectation])
        for expectation in suites
    ]


def rows_name(table: Table, with_key: bool) -> str:
    return f"{table.name}.rows" if with_key else f"{table.name}.rows_without_key"


def _meta(rule: str, column: str, *facts: str) -> dict[str, Any]:
    return {"rule": rule, "column": column, "facts": list(facts)}
