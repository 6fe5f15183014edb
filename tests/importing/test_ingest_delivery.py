"""Delivery of lines to Kafka when the producer breaks, and when the endpoint does not wait for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.kafka.mocked import SETTINGS, break_down, mock_clusters, slow_down
from tidemark.ingest import delivery
from tidemark.ingest.refusal import RefusedError
from tidemark.settings.sections import IngestSettings

SLOW_MS = 900


@pytest.fixture(autouse=True)
def _mocked(monkeypatch: pytest.MonkeyPatch) -> None:
    mock_clusters(monkeypatch)


def test_the_endpoint_answers_every_request_and_goes_on() -> None:
    one: list[Any] = [(b"a line", [])]

    async def requests() -> list[Any]:
        broken = endpoint._producer
        await endpoint.send(one)
        slow_down(broken, SLOW_MS)
        waiting = [asyncio.create_task(endpoint.send(one)) for _ in range(3)]
        await asyncio.sleep(SLOW_MS / 5000)
        break_down(broken)
        refused = asyncio.create_task(endpoint.send(one))
        answers = await asyncio.gather(*waiting, refused, return_exceptions=True)
        await endpoint.send(one)
        assert endpoint._producer is not broken
        return answers

    endpoint = delivery.Delivery(SETTINGS, IngestSettings())
    with endpoint.polling():
        *waited, refused = asyncio.run(asyncio.wait_for(requests(), 30))
    assert all(answer is None or isinstance(answer, RefusedError) for answer in waited)
    assert isinstance(refused, RefusedError) and refused.status == 503 and refused.headers["Retry-After"]


def test_an_endpoint_that_is_stopped_twice_ends_without_an_error() -> None:
    one: list[Any] = [(b"a line", [])]

    async def stopped() -> None:
        await endpoint.send(one)
        slow_down(endpoint._producer, SLOW_MS)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(endpoint.send(one), SLOW_MS / 3000)

    endpoint = delivery.Delivery(SETTINGS, IngestSettings())
    with endpoint.polling():
        asyncio.run(stopped())
