"""Every rule of the catalogue, counted by delta-rs and validated by Great Expectations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.operate.quality.rows import BAD, NOON, good, rows
from tidemark.contract.table import Table
from tidemark.operate.quality.facts import KEY_RULE, Facts, Moment
from tidemark.pipeline import TABLES
from tidemark.settings.sections import UpkeepSettings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse

if TYPE_CHECKING:
    from tidemark.operate.quality.validation import Validation

CHECKED = {table.name: table for table in TABLES if table.has_row_checks}
Results = list[dict[str, Any]]
Validate = Callable[..., Results]


@pytest.fixture(scope="module")
def validation() -> Validation:
    # Every collection of tests would wait seconds for the import of Great Expectations.
    from tidemark.operate.quality.validation import Validation

    return Validation(list(CHECKED.values()), UpkeepSettings())


@pytest.fixture
def validate(validation: Validation, tmp_path: Path) -> Validate:
    """Validates rows as those of a table."""
    store = DeltaRsStore(Lakehouse(str(tmp_path / "checkpoints"), str(tmp_path / "tables")))

    def results(table: Table, *by_rule: dict[str, Any], with_key: bool = True) -> Results:
        store.ensure(table)
        store.append_arrow(table, rows(table, *by_rule))
        facts = Facts(store, Moment(NOON, 0.0, {table.name: store.version(table)}))
        return validation.rows(table, facts.unexpected(table, None, with_key=with_key), len(by_rule))

    return results


def test_every_rule_has_a_row_that_breaks_it() -> None:
    catalogue = {(t.name, rule.name) for t in CHECKED.values() for rule in t.expectations}
    assert set(BAD) == catalogue | {(name, KEY_RULE) for name in CHECKED}


@pytest.mark.parametrize("name", sorted(CHECKED))
def test_good_rows_break_nothing(validate: Validate, name: str) -> None:
    table = CHECKED[name]

    result = validate(table, good(table, 0), good(table, 1))

    assert {r["expectation"] for r in result} == {rule for of, rule in BAD if of == name}
    assert [r["observed_value"] for r in result if not r["success"] or r["unexpected_count"]] == []


@pytest.mark.parametrize("name, rule", sorted(BAD))
def test_a_bad_row_is_found(validate: Validate, name: str, rule: str) -> None:
    table, changes = CHECKED[name], BAD[name, rule]
    bad = [good(table, 2 + i) | change for i, change in enumerate(changes)]

    results = {r["expectation"]: r for r in validate(table, good(table, 0), good(table, 1), *bad)}

    assert not results[rule]["success"]
    assert results[rule]["unexpected_count"] == len(bad)
    assert results[rule]["observed_value"] == f"{len(bad)} of {2 + len(bad)} rows"
    assert results[rule]["details"]


def test_without_the_key_only_rules_run(validate: Validate) -> None:
    table = CHECKED["silver.sessions"]

    result = validate(table, good(table, 0), good(table, 0), with_key=False)

    assert {r["expectation"] for r in result} == {rule.name for rule in table.expectations}


def test_an_expectation_that_cannot_be_evaluated_fails_and_says_why(validation: Validation) -> None:
    table = CHECKED["silver.sessions"]
    why = {rule.name: "table silver.sessions cannot be read" for rule in table.expectations}

    result = validation.rows(table, why, 1)

    assert len(result) == len(why) and not any(r["success"] for r in result)
    assert {r["observed_value"] for r in result} == {
        "could not be checked: table silver.sessions cannot be read"
    }
    assert all(r["unexpected_count"] is None for r in result)
