"""Senders whose producer has a fatal error, after which it sends nothing more."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import click
import pytest
from confluent_kafka import Producer

from tests.kafka.mocked import SETTINGS, break_down, mock_clusters
from tidemark.cli.generate import _reporting
from tidemark.cli.week import _entry
from tidemark.errors import KafkaError
from tidemark.importing import producer
from tidemark.importing.file_import import Batch
from tidemark.importing.lines import Block
from tidemark.importing.progress import Progress
from tidemark.kafka import client
from tidemark.kafka.sending import Sender


@pytest.fixture(autouse=True)
def _mocked(monkeypatch: pytest.MonkeyPatch) -> None:
    mock_clusters(monkeypatch)


@pytest.mark.parametrize(
    "call", [lambda sender: sender.send("lines", b"next"), Sender.poll, Sender.flush, Sender.close]
)
def test_a_sender_names_the_cause(call: Callable[[Sender], Any]) -> None:
    sender = Sender(SETTINGS, "lines")
    sender.send("lines", b"first")
    sender.close()
    sender.send("lines", b"second")
    break_down(sender._producer)
    with pytest.raises(KafkaError, match=r"OUT_OF_ORDER_SEQUENCE_NUMBER: .*lost\. Look at"):
        call(sender)
    with pytest.raises(KafkaError):  # nothing says that the line was sent
        sender.close()


def test_generate_does_not_call_lines_sent_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    reporting = _reporting(None)
    reporting.__enter__().add(5, 0)
    broken = KafkaError("broken")
    assert not reporting.__exit__(KafkaError, broken, None)
    click.echo("end", err=True)
    assert capsys.readouterr().err == "end\n"


class _Progress:
    topic = "lines-imports"

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}

    def refresh(self) -> None: ...


@pytest.mark.parametrize("times", [1, 1000])
def test_an_import_takes_another_producer_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    begun: list[Producer] = []

    class Breaking(Producer):
        def begin_transaction(self, *args: Any, **kwargs: Any) -> None:
            super().begin_transaction(*args, **kwargs)
            begun.append(self)
            if len(begun) <= times:
                break_down(self)

    monkeypatch.setattr(producer, "Producer", Breaking)
    monkeypatch.setattr(client, "end_offsets", lambda *_args, **_more: {0: 0})
    progress = cast("Progress", _Progress())
    sender = producer.Sender(
        SETTINGS, progress, "id", [], say=lambda _: None, stopped=lambda: False, patience=1
    )
    batch = Batch()
    batch.add(Block([b"a line"], size=7))
    started = time.monotonic()
    if times == 1:
        sender.send(batch, _entry(batch))
        assert len(begun) == 2
    else:
        with pytest.raises(KafkaError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            sender.send(batch, _entry(batch))
        assert time.monotonic() - started < 20
    sender.close()
