"""The output of `tidemark status`."""

from __future__ import annotations

import os
import signal

from tidemark.local import broker as embedded
from tidemark.operate.status import describe, lines
from tidemark.settings import Settings


def test_a_broker_that_does_not_answer_is_not_reported_as_running(broker: Settings) -> None:
    home = broker.changed(bootstrap_servers="")
    running = embedded.status(home)
    assert running
    assert describe(home)["parts"]["broker"] == {"state": "running", "pid": running.pid}
    os.kill(running.pid, signal.SIGSTOP)
    try:
        state = describe(home)
    finally:
        os.kill(running.pid, signal.SIGCONT)
    assert state["parts"]["broker"] == {"state": "not answering", "pid": running.pid}
    assert f"broker     not answering (pid {running.pid})" in lines(state)


def test_an_empty_home_names_no_address_that_nobody_has(home: Settings) -> None:
    state = describe(home)
    assert (state["bootstrap_servers"], state["dashboard_url"]) == (None, None)
    assert "kafka      not started yet, topic access-log" in lines(state)
    fixed = describe(home.changed(broker_port=19092, dashboard_port=18501))
    assert fixed["bootstrap_servers"] == "127.0.0.1:19092"
    assert fixed["dashboard_url"] == "http://127.0.0.1:18501"
