"""Signals set an event; the handlers of before come back."""

from __future__ import annotations

import os
import signal
import threading

from tidemark.signals import stop_signals


def test_a_signal_sets_the_event_and_its_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals() as stopping:
        assert not stopping.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wait(5) and stopping.signalled
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_end_of_the_block_sets_it_without_a_signal() -> None:
    with stop_signals(signal.SIGHUP) as stopping:
        pass
    assert stopping.is_set() and not stopping.signalled


def test_a_second_signal_may_have_its_default_effect() -> None:
    with stop_signals(second_ends=True) as stopping:
        os.kill(os.getpid(), signal.SIGINT)
        assert stopping.wait(5)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


def test_another_thread_catches_none() -> None:
    caught: list[object] = []

    def beside() -> None:
        with stop_signals():
            caught.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    assert caught == [before]
