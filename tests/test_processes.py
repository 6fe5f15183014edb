"""A command in a fork behaves as one in an interpreter of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks need Linux's subreapers")

# Says all that a process sees of how it was started.
LOOK = """
import json, os, sys
print(json.dumps([os.getppid(), os.getsid(0), os.getcwd(), sys.argv, __name__, sys.stdin.read(),
                  dict(os.environ), "pyspark" in sys.modules]))
print("problem", file=sys.stderr)
sys.exit(3)
"""


def forked(code: str, **options: Any) -> processes.Popen[str]:
    return processes.Popen(
        [sys.executable, "-c", code, "argument"], stdout=subprocess.PIPE, text=True, **options
    )


def test_it_is_a_child_with_its_own_input_output_and_environment(tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
    process = forked(LOOK, cwd=tmp_path, env={**os.environ, "ONLY": "here"}, **pipes)
    shown = psutil.Process(process.pid)
    assert shown.cmdline()[:4] == [sys.executable, "-c", LOOK, "argument"]
    assert shown.environ()["ONLY"] == "here" and shown.ppid() == os.getpid()
    output, errors = process.communicate("typed")
    assert (process.returncode, errors) == (3, "problem\n")
    parent, session, directory, arguments, name, typed, environment, imported = json.loads(output)
    assert (parent, session, directory) == (os.getpid(), process.pid, str(tmp_path))
    assert (arguments, name, typed) == (["-c", "argument"], "__main__", "typed")
    assert environment == {**os.environ, "ONLY": "here"}
    assert imported, "it was forked"


def test_signals_end_it() -> None:
    sleep = "import time; print('awake', flush=True); time.sleep(60)"
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        process = forked(sleep, stderr=subprocess.DEVNULL)
        assert process.stdout is not None and process.stdout.readline() == "awake\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(60) == -number
        assert not psutil.pid_exists(process.pid)


def test_what_an_interpreter_reads_at_its_start_gets_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; print('pyspark' in sys.modules, sys.flags.utf8_mode)"
    own = processes.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONUTF8": "1"}, capture_output=True
    )
    assert own.stdout == b"False 1\n"
    monkeypatch.setenv("PYTHONUTF8", "1")
    assert processes.run([sys.executable, "-c", code], capture_output=True).stdout == b"False 1\n"
