"""Work beside other work goes on after a failure, and ends with its event."""

from __future__ import annotations

import logging
import threading

import pytest

from tidemark.loops import attempted, every, stopping_when

LOG = logging.getLogger("tidemark.test")


def test_a_failure_is_reported_and_the_next_one_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    stopping = threading.Event()
    answers = iter(["the disk is full", "", "the disk is full again"])
    troubles: list[str] = []

    def work() -> None:
        if answer := next(answers):
            raise OSError(answer)

    def ended(trouble: str) -> None:
        troubles.append(trouble)
        if len(troubles) == 3:
            stopping.set()

    every(0.001, work, "cleaning", LOG, ended)(stopping)
    assert troubles == ["the disk is full", "", "the disk is full again"]
    assert "cleaning failed, the next one tries again: the disk is full again" in caplog.text


def test_one_attempt_tells_how_it_ended() -> None:
    assert attempted(lambda: 1, "counting", LOG) == ""
    assert attempted(lambda: {}["site"], "counting", LOG) == "'site'"


def test_an_event_is_set_once_a_condition_holds() -> None:
    stopping = threading.Event()
    answers = iter([False, False, True])
    stopping_when(lambda: next(answers), 0.001)(stopping)
    assert stopping.is_set() and list(answers) == []
