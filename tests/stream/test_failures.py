"""What is said of a flow that has failed, and where its trace goes."""

from __future__ import annotations

from pathlib import Path

from tidemark.errors import TableError
from tidemark.settings import Settings
from tidemark.stream.failures import explain


def test_the_trace_is_kept_where_the_directory_of_the_logs_is_gone(broker: Settings, tmp_path: Path) -> None:
    settings = broker.changed(home=tmp_path / "home")
    error = explain("requests", ValueError("something new"), settings)
    kept = settings.logs / "requests-failure.log"
    assert isinstance(error, TableError) and f"The full trace is in {kept};" in error.remedy
    assert "ValueError: something new" in kept.read_text()


def test_a_trace_that_cannot_be_kept_does_not_hide_the_failure(broker: Settings, tmp_path: Path) -> None:
    settings = broker.changed(home=tmp_path / "home")
    settings.home.mkdir()
    settings.logs.touch()
    error = explain("requests", ValueError("something new"), settings)
    assert "flow requests stopped: ValueError: something new" in str(error)
    assert "The full trace could not be written" in error.remedy
