from __future__ import annotations

import io

import pytest

from tidemark.local.status_lines import StatusLines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_away_from_a_terminal_only_changes_of_state_are_written() -> None:
    out = io.StringIO()
    lines = StatusLines(["broker", "pipe"], out)
    lines.show([("starting", "starting (0 s)"), ("waiting", "waiting")])
    lines.show([("starting", "starting (1 s)"), ("waiting", "waiting")])
    lines.show([("running", "running  here"), ("waiting", "waiting")])
    assert out.getvalue() == "broker  starting (0 s)\npipe    waiting\nbroker  running  here\n"


def test_on_a_terminal_lines_are_redrawn_in_place_and_messages_stay_above(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    out = Terminal()
    lines = StatusLines(["a", "b"], out)
    lines.show([("x", "first"), ("y", "a text too long for it")])
    lines.say("message")
    lines.show([("x", "second"), ("y", "")])
    assert out.getvalue() == "a  first\nb  a text t\n\x1b[2F\x1b[Jmessage\na  second\nb  \n"
