"""What a reader sees of a job: rows that are new, records each once, differences in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from examples.kit.events import Events
from examples.kit.example import Example, recount
from examples.kit.job import Job
from examples.kit.load import Event, Load
from examples.kit.results import Message, Results, differences, once
from tidemark.contract.store import Commit
from tidemark.contract.table import Change, Column, Table
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)
TABLE = Table(
    "toys.counts", "One row per toy.", "upsert", ("toy",), (
        Column("toy", "string", "Toy."),
        Column("count", "long", "How many."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ), time="", reads="",
)  # fmt: skip


def message(key: bytes, value: bytes, reason: str = "") -> Message:
    return Message(0, 0, key, value, {"reason": reason}, NOON)


def test_only_rows_written_since_the_last_look_are_fresh(tmp_path: Path) -> None:
    settings = Settings.of(home=tmp_path)
    store = DeltaRsStore(lakehouse.of(settings))
    store.ensure(TABLE)
    results = Results(settings)

    def write(number: int, *toys: str) -> None:
        rows = [{"toy": toy, "count": number, "updated_at": NOON + timedelta(seconds=number)} for toy in toys]
        store.upsert(TABLE, Change(pa.Table.from_pylist(rows, TABLE.arrow_schema)), Commit("w", number))

    assert results.fresh(TABLE).num_rows == 0
    write(0, "ball", "kite")
    assert sorted(results.fresh(TABLE)["toy"].to_pylist()) == ["ball", "kite"]
    assert results.fresh(TABLE).num_rows == 0
    write(1, "kite")
    assert results.fresh(TABLE).to_pylist()[0]["toy"] == "kite"
    assert results.table(TABLE).num_rows == 2


def test_of_a_record_that_was_written_twice_the_first_counts() -> None:
    result = once([message(b"1", b"a"), message(b"2", b"b"), message(b"1", b"c")])
    assert [m.value for m in result] == [b"a", b"b"]


def test_differences_name_the_key_and_both_values() -> None:
    assert list(differences("count", {"a": 1, "b": 2}, {"a": 1, "b": 2})) == []
    assert list(differences("count", {"a": 1, "b": 2}, {"b": 3, "c": 4})) == [
        "count a: should be 1, is absent",
        "count b: should be 2, is 3",
        "count c: should be absent, is 4",
    ]
    assert list(differences("count", Counter("aab"), Counter("aab"))) == []


class Letters(Results):
    """A reader that finds given dead letters."""

    def __init__(self, *letters: Message) -> None:
        self.letters = letters

    def messages(self, topic: str) -> list[Message]:
        assert topic == "toys.dead-letters"
        return list(self.letters)


def test_every_bad_event_must_be_a_dead_letter_for_its_reason() -> None:
    def events(load: Load) -> Iterator[Event]:
        yield Event(0, "toys", b"good")
        yield Event(1, "toys", b"bad", reason="not_json")

    job = Job("toys", 1, (Events("toys", "toy string"),), lambda _: [])
    example = Example("examples.toys", job, events, lambda _: [], lambda load, _: [f"{load.seed} is wrong"])
    right = message(b"toys/0/1", b"bad", "not_json")
    assert recount(example, Load(seed=7), Letters(right, right)) == ["7 is wrong"]
    assert len(recount(example, Load(), Letters())) == 2
    other = message(b"toys/0/1", b"bad", "wrong_type")
    assert len(recount(example, Load(), Letters(other))) == 3
    assert len(recount(example, Load(), Letters(right, message(b"toys/0/0", b"good", "not_json")))) == 2


def test_what_had_to_wait_for_a_job_that_was_down_is_recovery(tmp_path: Path) -> None:
    results = Results(Settings.of(home=tmp_path), outages=[(10.0, 20.0)])
    taken = [
        (1_000, 2_000),
        (9_000, 10_500),
        (11_000, 12_000),
        (19_900, 30_000),
        (5_000, 30_000),
        (20_000, 21_000),
    ]
    phases = [results.phase(begin, end) for begin, end in taken]
    assert phases == ["steady", *["recovery"] * 4, "steady"]
