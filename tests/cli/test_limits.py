"""Commands under limits of the system: one line that names the limit and the remedy, and nothing is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.recovery.killing import traffic

_GROUPS = Path("/sys/fs/cgroup")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "access.log"
    log.write_bytes(b"".join(line + b"\n" for _, line in traffic(seed=1, lines=2_000)))
    return log


@pytest.mark.parametrize(
    "limit, message",
    [
        pytest.param("ulimit -v 1000000", r"976 MiB of address space .*`ulimit -v unlimited`", id="address space"),
        pytest.param("ulimit -n 16", r"too few open files: .*Raise their limit \(`ulimit -n`", id="open files"),
    ],
)  # fmt: skip
def test_view_under_a_limit_says_so_and_goes_on_without(log: Path, limit: str, message: str) -> None:
    _refused(_look(log, f"{limit} && "), message)
    _complete(log)


@pytest.mark.parametrize(
    "controller, files, limit, message",
    [
        pytest.param(
            "pids", ("pids.max",), "25", r"may start \d+ threads, and needs .*pids limit", id="threads"
        ),
        pytest.param(
            "memory", ("memory.max", "memory.limit_in_bytes"), str(300 << 20),
            r"may have 300 MiB of memory, and needs .*MemoryMax=", id="memory",
        ),
    ],
)  # fmt: skip
def test_view_in_a_control_group_that_is_too_small_says_so(
    log: Path, controller: str, files: tuple[str, ...], limit: str, message: str
) -> None:
    with _control_group(controller, files, limit) as group:
        _refused(_look(log, f"echo $$ > {group}/cgroup.procs && "), message)
    _complete(log)


def _look(log: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Looks at a log in a shell that has done something `before`."""
    return subprocess.run(
        ["bash", "-c", f'{before}exec "$@"', "bash", sys.executable, "-m", "tidemark", "view", str(log), "--json"],
        env={**os.environ, "XDG_CACHE_HOME": str(log.parent / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )  # fmt: skip


def _refused(done: subprocess.CompletedProcess[str], message: str) -> None:
    assert done.returncode == 1, done
    assert re.search(message, done.stderr), done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("tidemark: ")]
    assert len(said) == 1 and "Traceback" not in done.stderr, done.stderr


def _complete(log: Path) -> None:
    done = _look(log)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["lines"] == 2_000


@contextmanager
def _control_group(controller: str, files: tuple[str, ...], limit: str) -> Iterator[Path]:
    """A control group with a limit, of cgroup v1 or v2; skips the test where none can be made."""
    directory = _GROUPS / controller if (_GROUPS / controller).is_dir() else _GROUPS
    group = directory / f"tidemark-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a control group: {error}")
    try:
        file = next((group / name for name in files if (group / name).exists()), None)
        if file is None:
            pytest.skip(f"control groups have no {files[0]}")
        file.write_text(limit)
        yield group
    finally:
        group.rmdir()
