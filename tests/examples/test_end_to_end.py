"""Every example by its command, as a user runs it: with a kill in the middle, and until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests import processes
from tidemark.local.process import wait_until

ROOT = Path(__file__).parent.parent.parent
NAMES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/__main__.py"))

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


def start(name: str, *options: str) -> subprocess.Popen[str]:
    return processes.Popen(
        [sys.executable, "-m", f"examples.{name}", *options],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def processes_of(home: Path) -> list[psutil.Process]:
    """Those whose command line names the home: all parts and their JVMs."""
    return [p for p in psutil.process_iter() if p.pid != os.getpid() and str(home) in " ".join(_command(p))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_killed_and_recounted(name: str, seed: int, tmp_path: Path) -> None:
    home = tmp_path / "home"
    running = start(name, "--seconds=15", "--late=0.2", f"--seed={seed}", "--check", f"--home={home}")
    output, _ = running.communicate(timeout=500)
    assert running.returncode == 0, output
    assert "killed once, recounted, equal" in output
    assert processes_of(home) == []


@pytest.mark.parametrize("name", NAMES)
def test_ends_cleanly_on_ctrl_c(name: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    running = start(name, f"--home={home}")
    assert running.stdout is not None
    # The first line tells that the job is ready, the second one is a result.
    assert "ready after" in running.stdout.readline()
    assert running.stdout.readline(), "nothing was printed"
    began = time.monotonic()
    os.kill(running.pid, signal.SIGINT)
    output, _ = running.communicate(timeout=60)
    # The limit is a promise to whoever waits at the terminal; the slack is for a busy machine.
    assert time.monotonic() - began < 20
    assert running.returncode == 0, output
    assert wait_until(lambda: processes_of(home) == [], 60)
