"""How tables are made of each other follows from what they declare."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gold import pages, sources, traffic
from silver import requests, sessions
from tidemark.contract.graph import Graph
from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.registry import tables
from tidemark.errors import TableError

GRAPH = Graph(tables())


def names(tables: tuple) -> list[str]:  # type: ignore[type-arg]
    return [table.name for table in tables]


def test_the_tables_of_lines() -> None:
    assert names((GRAPH.lines, GRAPH.accepted, GRAPH.rejected)) == [
        "bronze.access_log", "silver.requests", "silver.rejected",
    ]  # fmt: skip


def test_a_table_is_made_at_once_later_or_of_another_that_changes() -> None:
    assert traffic.TABLE in GRAPH.now and pages.TABLE in GRAPH.later and sources.TABLE in GRAPH.following
    assert not {*GRAPH.now} & {*GRAPH.later} and not {*GRAPH.derived} & {*GRAPH.following}


def test_only_patient_batches_commit_what_is_made_later() -> None:
    """Upkeep has the tables without their functions."""
    assert names(GRAPH.plain.patient) == names(GRAPH.patient)
    assert {*names(GRAPH.patient)} == {*names(GRAPH.after_accepted)}
    assert not Graph((replace(sessions.TABLE, name="jobs.sessions"),)).patient


def test_the_flows_commit_every_table_and_the_accounts() -> None:
    assert sorted(names(GRAPH.of_flows)) == sorted([*GRAPH.names, ACCOUNTS.name, SITES.name])


def test_all_tables_but_the_lines_are_made_of_others() -> None:
    assert set(GRAPH.rebuildable) == {*GRAPH.names} - {"bronze.access_log"}


def test_a_table_of_a_package_is_placed_by_its_declaration() -> None:
    more = replace(sessions.TABLE, name="gold.of_a_package")
    graph = Graph((*GRAPH.tables, more))
    assert more in graph.visited and more in graph.later and graph["gold.of_a_package"] == more


def test_the_tables_of_a_job_are_no_tables_of_lines() -> None:
    job = replace(traffic.TABLE, name="jobs.clicks", aggregation=None, now=False)
    graph = Graph((job,))
    assert not graph.appends and not graph.derived and graph.names == [job.name]
    with pytest.raises(TableError, match=r"there is no table silver\.requests"):
        graph[requests.TABLE.name]
