"""A table made of silver.sessions takes its changes, and always equals one that is made anew."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from gold import sources
from silver import sessions
from tidemark.contract.aggregation import Step
from tidemark.contract.store import Commit
from tidemark.contract.table import Change
from tidemark.home import Home
from tidemark.operate.upkeep import maintain
from tidemark.settings import Settings
from tidemark.store import deltalog
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream import changes
from tidemark.stream.changes import Known
from tidemark.stream.following import Follower, catch_up

DAY = datetime(2026, 11, 22, tzinfo=UTC)
FOLLOWER = Follower(sources.TABLE, sources.COUNTS, sessions.TABLE)
Row = dict[str, object]


class Scenario:
    """Sessions that change, and the table that follows them."""

    def __init__(self, directory: Path, seed: int = 1) -> None:
        self.home = Home.of(Settings.of(home=directory), [sessions.TABLE, sources.TABLE])
        self.lakehouse = self.home.lakehouse
        self.store = DeltaRsStore(self.lakehouse)
        self.store.ensure(sessions.TABLE)
        self.store.ensure(sources.TABLE)
        self.chance = random.Random(seed)
        self.rows: dict[str, Row] = {}
        self.number = 0
        # The step of the newest commit.
        self.known: Known = {}

    def session(self, id: str) -> Row:
        """A session with few different values, so that keys and visitors meet again."""
        start = DAY + timedelta(minutes=self.chance.randrange(0, 6 * 60))
        views = self.chance.choice([1, 1, 2, 5])
        return {
            "session_id": id,
            "site": self.chance.choice(["shop", "blog"]),
            "visitor_id": f"{self.chance.randrange(8):032x}",
            "start_time": start,
            "end_time": start,
            "pageviews": views,
            "bounced": views == 1,
            "channel": self.chance.choice([None, "direct", "email"]),
            "campaign": self.chance.choice([None, "", "may"]),
        }

    def change(self, new: int = 5, changed: int = 3, gone: int = 2) -> None:
        """One commit: sessions begin, change in any way, and disappear. An id keeps its start, as in silver."""
        there = list(self.rows)
        removed = self.chance.sample(there, min(gone, len(there)))
        kept = [id for id in there if id not in removed]
        rows = [self.session(f"s{self.number}-{n}") for n in range(new)]
        for id in self.chance.sample(kept, min(changed, len(kept))):
            rows.append({**self.session(id), "start_time": self.rows[id]["start_time"]})
        deleted = [{"session_id": id, "start_time": self.rows[id]["start_time"]} for id in removed]
        self.number += 1
        schema = sessions.TABLE.arrow_schema
        change = Change(
            pa.Table.from_pylist(rows, schema),
            pa.Table.from_pylist(
                deleted, pa.schema([schema.field("session_id"), schema.field("start_time")])
            ),
        )
        existing = self.store.read(sessions.TABLE)
        self.store.upsert(sessions.TABLE, change, Commit("activity", self.number))
        self.known = {("activity", self.number): FOLLOWER.step(existing, change)}
        for id in removed:
            del self.rows[id]
        self.rows |= {str(row["session_id"]): row for row in rows}

    def compact(self) -> None:
        self.lakehouse.delta(sessions.TABLE).optimize.compact()

    def vacuum(self) -> None:
        self.lakehouse.delta(sessions.TABLE).vacuum(0, dry_run=False, enforce_retention_duration=False)

    def follow(self, follower: Follower = FOLLOWER, known: Known = MappingProxyType({})) -> None:
        home = replace(self.home, opened=self.store)
        catch_up([follower], home, known={follower.table.name: known})

    def content_of_table(self) -> list[Row]:
        return content(self.store.read(sources.TABLE))

    def expected(self) -> list[Row]:
        """What all sessions make at once."""
        rows = pa.Table.from_pylist(list(self.rows.values()), sessions.TABLE.arrow_schema)
        partial = sources.COUNTS.partial(rows.select(list(sources.COUNTS.needs)))
        return content(sources.COUNTS.combine(sources.TABLE.arrow_schema.empty_table(), partial).rows)

    def replacements(self) -> int:
        """How often the table was made anew."""
        log = self.lakehouse.log(sources.TABLE)
        infos = [
            a["commitInfo"]
            for v in deltalog.versions(log)
            for a in deltalog.actions(log, v)
            if "commitInfo" in a
        ]
        return sum(info.get("operationParameters", {}).get("mode") == "Overwrite" for info in infos)


def content(rows: pa.Table) -> list[Row]:
    names = [name for name in sources.TABLE.column_names if name != "updated_at"]
    ordered = rows.select(names).sort_by([(name, "ascending") for name in sources.TABLE.key])
    return ordered.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_whatever_changes_it_equals_a_table_that_is_recomputed(seed: int, tmp_path: Path) -> None:
    home = Scenario(tmp_path, seed)
    for _ in range(8):
        for _ in range(home.chance.choice([1, 1, 3])):
            home.change(*(home.chance.randrange(8) for _ in range(3)))
            if home.chance.random() < 0.3:
                home.compact()
        home.follow()
        assert home.content_of_table() == home.expected()
    assert home.replacements() == 1  # the first time


def test_a_session_that_goes_on_recomputes_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Scenario(tmp_path)
    home.change()
    home.follow()
    id, row = next(iter(home.rows.items()))
    home.rows[id] = {**row, "pageviews": 7, "bounced": False}
    rows = pa.Table.from_pylist([home.rows[id]], sessions.TABLE.arrow_schema)
    home.store.upsert(sessions.TABLE, Change(rows), Commit("activity", 2))
    monkeypatch.setattr(changes.FileChanges, "_files", lambda self: pytest.fail("the table is read"))
    home.follow()
    assert home.content_of_table() == home.expected()
    assert home.replacements() == 1


@pytest.mark.parametrize("commits", [1, 2])
def test_a_change_that_is_handed_over_is_not_read(
    commits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Scenario(tmp_path)
    read = changes.FileChanges._step
    reads = []

    def counted(*given: Any) -> Step:
        reads.append(given)
        return read(*given)

    monkeypatch.setattr(changes.FileChanges, "_step", counted)
    for _ in range(3):
        for _ in range(commits):
            home.change()
        home.compact()
        home.follow(known=home.known)
        assert home.content_of_table() == home.expected()
    assert home.replacements() == 1
    assert len(reads) == 2 * (commits - 1)


def gone_files(home: Scenario) -> None:
    home.change(0, 5, 5)
    home.change()
    home.vacuum()


def gone_log(home: Scenario) -> None:
    home.change()
    home.change()
    for version in deltalog.versions(home.lakehouse.log(sessions.TABLE))[:-1]:
        DeltaTable(home.lakehouse.path(sessions.TABLE)).create_checkpoint()
        Path(home.lakehouse.path(sessions.TABLE), "_delta_log", f"{version:020}.json").unlink()


def another_table(home: Scenario) -> None:
    """As after a repair: the same name, from version 0 on."""
    shutil.rmtree(home.lakehouse.path(sessions.TABLE))
    home.store = DeltaRsStore(home.lakehouse)
    home.store.ensure(sessions.TABLE)
    home.rows = {}
    for _ in range(6):
        home.change()


@pytest.mark.parametrize("happens", [gone_files, gone_log, another_table], ids=lambda f: f.__name__)
def test_without_the_changes_it_is_recomputed(happens: Callable[[Scenario], None], tmp_path: Path) -> None:
    home = Scenario(tmp_path)
    for _ in range(3):
        home.change()
        home.follow()
    happens(home)
    home.follow()
    assert home.content_of_table() == home.expected()
    assert home.replacements() == 2


def test_another_definition_recomputes_it_and_so_does_the_earlier_one(tmp_path: Path) -> None:
    home = Scenario(tmp_path)
    home.change()
    home.follow()
    other = replace(FOLLOWER, aggregation=replace(sources.COUNTS, seconds=7200))
    for follower, times in ((FOLLOWER, 1), (other, 2), (other, 2), (FOLLOWER, 3)):
        home.follow(follower)
        assert home.replacements() == times
    assert home.content_of_table() == home.expected()


def test_what_was_made_of_sessions_that_retention_has_deleted_stays(tmp_path: Path) -> None:
    home = Scenario(tmp_path)
    settings = Settings.of(home=tmp_path).changed(retention_days="silver.sessions=5")
    home.home = Home.of(settings, [sessions.TABLE, sources.TABLE])
    for days in (1, 8):
        start = datetime.now(UTC) - timedelta(days=days)
        rows = [{**home.session(f"{days}-{n}"), "start_time": start, "end_time": start} for n in range(4)]
        home.store.append_arrow(sessions.TABLE, pa.Table.from_pylist(rows, sessions.TABLE.arrow_schema))
    home.follow()
    before = home.content_of_table()
    maintain(home.home)
    assert home.store.read(sessions.TABLE).num_rows == 4
    for follower in (replace(FOLLOWER, aggregation=replace(sources.COUNTS, seconds=7200)), FOLLOWER):
        home.follow(follower)
    assert home.replacements() == 3
    assert home.content_of_table() == before


def test_parts_have_no_key_in_common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Scenario(tmp_path)
    for hour in range(6):  # one file each
        rows = [{**home.session(f"{hour}-{n}"), "start_time": DAY + timedelta(hours=hour)} for n in range(4)]
        home.rows |= {str(row["session_id"]): row for row in rows}
        home.store.append_arrow(sessions.TABLE, pa.Table.from_pylist(rows, sessions.TABLE.arrow_schema))
    monkeypatch.setattr(changes, "_ROWS", 1)
    parts = list(changes.FileChanges(home.lakehouse, sessions.TABLE).parts(sources.COUNTS))
    keys = [tuple(row[name] for name in sources.TABLE.key) for part in parts for row in part.to_pylist()]
    assert len(parts) > 2 and len(set(keys)) == len(keys)
    home.follow()
    assert home.content_of_table() == home.expected()
