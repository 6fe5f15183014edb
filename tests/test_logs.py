"""Log lines of long-running processes on standard error."""

from __future__ import annotations

import json
import logging
from datetime import datetime

import pytest

from tidemark import logs
from tidemark.settings import Settings


@pytest.fixture(autouse=True)
def _quiet_again() -> object:
    yield
    root = logging.getLogger("tidemark")
    root.handlers.clear()
    root.propagate, root.level = True, logging.NOTSET


def test_json_has_one_object_a_line_with_the_facts_of_the_event(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings.of(log_format="json").watching)
    log = logging.getLogger("tidemark.stream")
    log.info('two "lines"\nof %s', "text", extra={"flow": "requests", "rows": 3})
    log.debug("not shown")
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("failed")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert datetime.fromisoformat(first.pop("time")).utcoffset() is not None
    assert first == {
        "level": "info", "logger": "tidemark.stream", "message": 'two "lines"\nof text', "flow": "requests",
        "rows": 3,
    }  # fmt: skip
    assert second["level"] == "error"
    assert second["trace"].endswith("ValueError: why")


def test_text_speaks_as_all_commands_do(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings.of(log_level="debug").watching)
    logging.getLogger("tidemark.stream").debug("batch done", extra={"rows": 3})
    assert capsys.readouterr().err == "tidemark: batch done (rows=3)\n"
