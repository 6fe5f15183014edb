"""One Kafka transaction a batch, on a real broker: what a reader sees, and what a restarted job finds."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Iterator

import pytest

from examples.kit.results import Results
from examples.kit.transactions import Record, Transactions
from tests import processes
from tests.kafka.mocked import break_down
from tidemark.contract.store import Commit
from tidemark.errors import KafkaError, TableError
from tidemark.kafka import client as kafka
from tidemark.settings import Settings

# Opens a transaction, writes into it and is killed: what a crash before the commit leaves behind.
KILLED = """
import os, signal, sys
from pathlib import Path
from examples.kit.transactions import Record, Transactions
from tidemark.settings import Settings
home, servers, out, states = sys.argv[1:]
writer = Transactions(Settings.of(home=Path(home), bootstrap_servers=servers).kafka, states)
writer._producer.begin_transaction()
writer._produce(Record(out, b"k", b"lost"))
writer._produce(Record(states, b"ann", b"lost"))
writer._producer.flush(10)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def topics(broker: Settings) -> tuple[str, str]:
    """Names of a topic of results, which exists, and of one of states."""
    name = uuid.uuid4().hex[:8]
    kafka.ensure_topic(broker.kafka, f"out-{name}", partitions=2)
    return f"out-{name}", f"states-{name}"


def values(broker: Settings, topic: str) -> list[bytes]:
    # The broker marks the records of a transaction as committed after it has answered.
    kafka.await_committed(broker.kafka, topic)
    return [message.value for message in Results(broker).messages(topic)]


def test_states_progress_and_facts_are_found_again(broker: Settings, topics: tuple[str, str]) -> None:
    out, states = topics
    first = Transactions(broker.kafka, states)
    assert (first.states, first.facts) == ({}, {})
    first.commit(Commit("q/1", 0), [Record(out, b"k", b"one")], {b"ann": b"1", b"bob": b"1"}, {"newest": 5})
    first.commit(Commit("q/1", 1), [Record(out, b"k", b"two")], {b"ann": b"2"}, {"newest": 9})
    again = Transactions(broker.kafka, states)
    assert again.states == {b"ann": b"2", b"bob": b"1"}
    assert again.facts == {"newest": 9}
    assert [again.done(Commit("q/1", number)) for number in (0, 1, 2)] == [True, True, False]
    assert values(broker, out) == [b"one", b"two"]


def test_a_killed_writer_leaves_nothing_and_holds_nobody_up(
    broker: Settings, topics: tuple[str, str]
) -> None:
    out, states = topics
    Transactions(broker.kafka, states).commit(Commit("q/1", 0), [Record(out, b"k", b"kept")], {b"ann": b"1"})
    killed = processes.run(
        [sys.executable, "-c", KILLED, str(broker.home), broker.kafka.bootstrap_servers, out, states],
        timeout=60, check=False, env={**os.environ},
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    again = Transactions(broker.kafka, states)
    assert again.states == {b"ann": b"1"}
    again.commit(Commit("q/1", 1), [Record(out, b"k", b"after")])
    assert values(broker, out) == [b"kept", b"after"]


def test_an_older_writer_can_write_no_more(broker: Settings, topics: tuple[str, str]) -> None:
    out, states = topics
    older = Transactions(broker.kafka, states)
    newer = Transactions(broker.kafka, states)
    with pytest.raises(KafkaError):
        older.commit(Commit("q/1", 0), [Record(out, b"k", b"older")])
    newer.commit(Commit("q/1", 0), [Record(out, b"k", b"newer")])
    assert values(broker, out) == [b"newer"]


def test_states_of_another_checkpoint_are_refused(broker: Settings, topics: tuple[str, str]) -> None:
    writer = Transactions(broker.kafka, topics[1])
    writer.commit(Commit("q/1", 7), [])
    with pytest.raises(TableError, match="another checkpoint"):
        writer.done(Commit("q/2", 0))


def test_a_producer_that_broke_is_an_error_and_nothing_of_the_batch_is_seen(
    broker: Settings, topics: tuple[str, str]
) -> None:
    out, states = topics
    writer = Transactions(broker.kafka, states)
    writer.commit(Commit("q/1", 0), [Record(out, b"k", b"kept")])

    def records() -> Iterator[Record]:
        yield Record(out, b"k", b"lost")
        break_down(writer._producer)
        yield Record(out, b"k", b"lost, too")

    with pytest.raises(KafkaError, match="Look at the broker's log"):
        writer.commit(Commit("q/1", 1), records())
    Transactions(broker.kafka, states).commit(Commit("q/1", 1), [Record(out, b"k", b"again")])
    assert values(broker, out) == [b"kept", b"again"]
