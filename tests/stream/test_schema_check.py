"""Rows of two kinds never come together in one table: what no longer fits is told before the start."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gold import bots, traffic
from silver import requests, sessions
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import Sum, WindowedCounts
from tidemark.errors import TableError
from tidemark.home import Home
from tidemark.settings import Settings
from tidemark.settings.sites import SiteSettings
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.stream.schema_check import (
    changed,
    note,
    rebuilt,
    require_fitting,
    require_visitor_key,
    unapplied,
)
from tidemark.stream.table_state import TableState, incomplete, record_states

FLOWS = {"requests": 1, "activity": 1}
TABLES = (traffic.TABLE, sessions.TABLE)


def other(counts: WindowedCounts) -> Table:
    return replace(traffic.TABLE, aggregation=lambda meaning: counts)


def start(settings: Settings, *tables: Table, flows: dict[str, int] = FLOWS) -> None:
    require_fitting(Home.of(settings, tables), flows)


def test_the_same_tables_and_settings_fit_again(home: Settings) -> None:
    start(home, *TABLES)
    start(home, *TABLES)
    start(home.changed(late_seconds=5), *TABLES)


@pytest.mark.parametrize(
    "table, what",
    [
        (other(replace(traffic.COUNTS, seconds=30)), "window was 60 s, now 30 s"),
        (
            other(replace(traffic.COUNTS, sums={**traffic.COUNTS.sums, "bytes": Sum("status")})),
            "bytes was sum of bytes, now sum of status",
        ),
        (replace(traffic.TABLE, key=("window_start",)), "key was site, window_start, now window_start"),
    ],
)
def test_another_window_aggregate_or_key_is_refused_with_two_ways_out(
    home: Settings, table: Table, what: str
) -> None:
    start(home, *TABLES)
    with pytest.raises(
        TableError, match=re.escape(f"the state of gold.traffic no longer fits: {what}")
    ) as refused:
        start(home, table, sessions.TABLE)
    assert "`tidemark rebuild gold.traffic`" in refused.value.remedy
    assert "restore a savepoint" in refused.value.remedy
    # It is refused until it is rebuilt, or the change taken back.
    assert set(changed(Home.of(home, [table, sessions.TABLE]))) == {"gold.traffic"}
    start(home, *TABLES)
    note(Home.of(home, [table]))
    start(home, table, sessions.TABLE)


def test_a_wider_key_is_filled_with_history(home: Settings) -> None:
    narrow = replace(bots.TABLE, key=bots.TABLE.key[:-1])
    start(home, narrow, sessions.TABLE)
    start(home, bots.TABLE, sessions.TABLE)
    assert incomplete(lakehouse_of(home)) == ["gold.bots"]
    start(home, bots.TABLE, sessions.TABLE)
    assert incomplete(lakehouse_of(home)) == ["gold.bots"]
    # The way back is refused: rows would have two meanings of one key.
    with pytest.raises(
        TableError, match=r"key was .*bot_verified, now site, window_start, bot_name, bot_kind"
    ):
        start(home, narrow, sessions.TABLE)


def test_another_session_gap_is_another_state(home: Settings) -> None:
    start(home, *TABLES)
    with pytest.raises(TableError, match=r"silver\.sessions no longer fits: gap was 1800 s, now 600 s"):
        start(home.changed(session_gap_seconds=600), *TABLES)


def test_settings_of_history_are_others_until_a_rebuild(home: Settings) -> None:
    home = home.changed(visitor_key="of a test")
    tables, lakehouse = (*TABLES, requests.TABLE), lakehouse_of(home)
    note(Home.of(home, tables))
    hosts = replace(home, sites={"shop": SiteSettings(hosts=("shop.example", "www.shop.example"))})
    changed_all = hosts.changed(session_gap_seconds=600, late_seconds=5)
    note(Home.of(hosts, tables))  # new lines are read with these, history is not
    gap = {"session_gap_seconds": ("1800", "600")}
    of_lines = {"sites.shop.hosts": ("", "shop.example, www.shop.example")}
    assert unapplied(Home.of(home, tables)) == {}
    assert unapplied(Home.of(changed_all, tables)) == {"silver.sessions": gap, "silver.requests": of_lines}
    record_states(lakehouse, rebuilt(changed_all, [requests.TABLE]))
    assert unapplied(Home.of(changed_all, tables)) == {"silver.sessions": gap}
    assert unapplied(Home.of(home, tables)) == {
        "silver.requests": {"sites.shop.hosts": ("shop.example, www.shop.example", "")}
    }


def test_a_new_column_and_a_new_table_fit(home: Settings) -> None:
    start(home, *TABLES)
    more = replace(traffic.COUNTS, sums={**traffic.COUNTS.sums, "errors": Sum("status", within=(400, 599))})
    wider = replace(
        other(more),
        columns=(*traffic.TABLE.columns, Column("errors", "long", "Responses that tell of an error.")),
    )
    start(home, wider, sessions.TABLE, replace(traffic.TABLE, name="gold.visits"))
    # From then on the column is part of the state.
    fewer = replace(more, sums={**more.sums, "errors": Sum("status", within=(500, 599))})
    with pytest.raises(TableError, match="errors was rows with status 400 to 599, now rows with status 500"):
        start(home, other(fewer))


def test_another_version_of_a_query_is_refused(home: Settings) -> None:
    start(home, *TABLES)
    Path(lakehouse_of(home).checkpoint("requests", 1)).mkdir(parents=True)
    with pytest.raises(
        TableError, match="flow requests no longer fits: its query is of version 2"
    ) as refused:
        start(home, *TABLES, flows={"requests": 2, "activity": 1})
    assert "Restore a savepoint" in refused.value.remedy


def test_a_state_has_the_entries_that_earlier_versions_wrote() -> None:
    entries = {
        "key": "site, path",
        "settings": '{"geo_database": ""}',
        "privacy": '{"privacy.mode": "masked"}',
        "swap": "3",
        "history": "missing",
        "kept since": "2026-11-21T10:00:00+00:00",
    }
    state = TableState.of(entries)
    assert state == TableState(
        {"key": "site, path"},
        settings={"geo_database": ""},
        privacy={"privacy.mode": "masked"},
        swap=3,
        has_history=False,
        kept_since=datetime(2026, 11, 21, 10, tzinfo=UTC),
    )
    assert state.entries == entries
    newer = state.updated(TableState({"window": "60 s"}, swap=4, has_history=True))
    assert newer.entries == {**entries, "window": "60 s", "swap": "4", "history": "whole"}
    assert "key" not in state.updated(TableState({"window": "60 s"}), whole=True).entries


def test_a_damaged_note_is_an_error(home: Settings) -> None:
    start(home, *TABLES)
    path = home.checkpoints / "states.json"
    assert set(json.loads(path.read_text())) == {"gold.traffic", "silver.sessions"}
    path.write_text("{")
    with pytest.raises(TableError, match="cannot be read"):
        start(home, *TABLES)


def test_the_key_of_catalog_tables_is_noted_beside_their_checkpoints(home: Settings, tmp_path: Path) -> None:
    settings = home.changed(
        catalog="main", checkpoint_location=str(tmp_path / "volume"), visitor_key="kept in a secret"
    )
    pipeline = Home.of(settings, [requests.TABLE])
    require_visitor_key(pipeline)
    note(pipeline)
    another_cluster = pipeline.with_settings(settings.changed(home=tmp_path / "other"))
    assert require_visitor_key(another_cluster)
    changed_key = another_cluster.with_settings(settings.changed(visitor_key="another secret"))
    with pytest.raises(TableError, match=r"not the one that the tables in `main`\.`tidemark` were made with"):
        require_visitor_key(changed_key)
    with pytest.raises(TableError, match=r"`main`\.`tidemark` is missing"):
        require_visitor_key(pipeline.with_settings(settings.changed(visitor_key="")))
    require_visitor_key(changed_key, renew=True)
    note(changed_key)
    assert require_visitor_key(changed_key)
