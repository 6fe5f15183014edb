"""Every rule of the catalogue, as Great Expectations runs it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.operate.quality.rows import BAD, good, rows
from tidemark.operate.quality.suite import KEY_RULE
from tidemark.operate.quality.validation import Validation
from tidemark.pipeline import TABLES
from tidemark.settings.sections import UpkeepSettings

CHECKED = {table.name: table for table in TABLES if table.has_row_checks}


@pytest.fixture(scope="module")
def validation() -> Validation:
    return Validation(list(CHECKED.values()), UpkeepSettings())


def test_every_rule_has_a_row_that_breaks_it() -> None:
    catalogue = {(t.name, rule.name) for t in CHECKED.values() for rule in t.expectations}
    assert set(BAD) == catalogue | {(name, KEY_RULE) for name in CHECKED}


@pytest.mark.parametrize("name", sorted(CHECKED))
def test_good_rows_break_nothing(spark: SparkSession, validation: Validation, name: str) -> None:
    table = CHECKED[name]
    frame = spark.createDataFrame(rows(table, good(table, 0), good(table, 1)), table.schema)

    found = validation.rows(table, frame, 2, with_key=True)

    assert {r["expectation"] for r in found} == {rule for of, rule in BAD if of == name}
    assert [r["observed_value"] for r in found if not r["success"] or r["unexpected_count"]] == []


@pytest.mark.parametrize("name, rule", sorted(BAD))
def test_a_bad_row_is_found(spark: SparkSession, validation: Validation, name: str, rule: str) -> None:
    table, changes = CHECKED[name], BAD[name, rule]
    bad = [good(table, 2 + i) | change for i, change in enumerate(changes)]
    frame = spark.createDataFrame(rows(table, good(table, 0), good(table, 1), *bad), table.schema)

    results = {r["expectation"]: r for r in validation.rows(table, frame, 2 + len(bad), with_key=True)}

    assert not results[rule]["success"]
    assert results[rule]["unexpected_count"] == len(bad)
    assert results[rule]["observed_value"] == f"{len(bad)} of {2 + len(bad)} rows"
    assert results[rule]["details"]


def test_without_the_key_only_rules_run(spark: SparkSession, validation: Validation) -> None:
    table = CHECKED["silver.sessions"]
    frame = spark.createDataFrame(rows(table, good(table, 0), good(table, 0)), table.schema)

    found = validation.rows(table, frame, 2, with_key=False)

    assert {r["expectation"] for r in found} == {rule.name for rule in table.expectations}


def test_an_expectation_that_cannot_be_evaluated_fails_and_says_why(
    spark: SparkSession, validation: Validation
) -> None:
    found = validation.rows(CHECKED["silver.sessions"], spark.range(1), 1, with_key=False)

    assert not any(r["success"] for r in found)
    assert all(r["observed_value"].startswith("could not be checked: ") for r in found)
    assert all(r["unexpected_count"] is None for r in found)
