"""Signals set an event; the handlers of before come back."""

from __future__ import annotations

import os
import signal
import sys
import threading
from subprocess import PIPE

from tests.processes import Popen
from tidemark.signals import stop_signals


def test_a_signal_sets_the_event_and_its_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals() as stopping:
        assert not stopping.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wait(60) and stopping.signalled
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_at_any_moment_of_waiting_ends_it() -> None:
    """Each call of a function that waiting makes is interrupted by a signal once, also where a lock is held."""
    code = """
import signal, sys
from tidemark.signals import stop_signals

interrupted = True
number = 0
while interrupted:
    number += 1
    calls = 0
    interrupted = False

    def interrupt(_frame, event, _given):
        global calls, interrupted
        calls += event == "call"
        if calls == number and not interrupted:
            interrupted = True
            signal.raise_signal(signal.SIGTERM)

    with stop_signals() as stopping:
        sys.setprofile(interrupt)
        stopping.wait(1e-3)
        sys.setprofile(None)
        assert not interrupted or stopping.wait(60)
print(number - 1)
"""
    with Popen([sys.executable, "-c", code], stdout=PIPE) as waiting:
        try:
            output, _ = waiting.communicate(timeout=30)
        finally:
            waiting.kill()
    assert waiting.returncode == 0 and int(output) > 5


def test_the_end_of_the_block_sets_it_without_a_signal() -> None:
    with stop_signals(signal.SIGHUP) as stopping:
        pass
    assert stopping.is_set() and not stopping.signalled


def test_a_second_signal_may_have_its_default_effect() -> None:
    with stop_signals(second_ends=True) as stopping:
        os.kill(os.getpid(), signal.SIGINT)
        assert stopping.wait(60)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


def test_an_ignored_hangup_stays_ignored_as_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals(signal.SIGHUP) as stopping:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stopping.wait(0.5)
    finally:
        signal.signal(signal.SIGHUP, before)


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
