from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kafka.broken import break_producer, mock_config
from tidemark.errors import KafkaError
from tidemark.kafka import client
from tidemark.kafka.sending import Sender
from tidemark.settings.sections import KafkaSettings

SETTINGS = KafkaSettings(bootstrap_servers="127.0.0.1:1")


@pytest.mark.parametrize(
    "call",
    [lambda sender: sender.send("log", b"two"), Sender.poll, Sender.flush, Sender.close],
    ids=["send", "poll", "flush", "close"],
)
def test_a_producer_that_broke_is_one_error_that_names_the_cause(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[Sender], object]
) -> None:
    config = mock_config(SETTINGS)
    monkeypatch.setattr(client, "client_config", lambda settings: config)
    sender = Sender(SETTINGS, "lines")
    sender.send("log", b"one")
    assert sender.flush() == 0
    break_producer(sender._producer)
    with pytest.raises(
        KafkaError, match=r"reports OUT_OF_ORDER_SEQUENCE_NUMBER: .*Look at the broker's log\."
    ):
        call(sender)
