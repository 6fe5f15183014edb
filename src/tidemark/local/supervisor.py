"""Starts the parts of a home in order, keeps them running, and stops them together."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tidemark.local.process import kill_group, spawn, wait_until
from tidemark.local.status_lines import StatusLines
from tidemark.signals import stop_signals

TICK_SECONDS = 0.2
# A part is given up after this many deaths within a minute, or in a row without ever being ready.
MOST_DEATHS = 5
MOST_FAILED_STARTS = 3
# All parts together get this long to stop by themselves.
STOP_SECONDS = 9.5
LOG_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True)
class Part:
    """One process to supervise.

    `ready` is polled until it is true; then the next part starts, or at once if this one is not `awaited`. `detail` is
    shown while it runs. Parts stop in ascending `stop_order`; `stop_seconds` are reserved for it if earlier ones take
    long. One that `may_finish` is not restarted after exit status 0. `environment` replaces that of this process.
    """

    name: str
    command: Sequence[str]
    log: Path
    ready: Callable[[], bool]
    detail: Callable[[], str] = lambda: ""
    stop_order: int = 0
    stop_seconds: float = 2.0
    may_finish: bool = False
    environment: dict[str, str] | None = None
    awaited: bool = True


@dataclass
class _Supervised:
    """A part and its state."""

    part: Part
    process: subprocess.Popen[bytes] | None = None
    state: str = "waiting"
    started: float = 0.0
    restart_at: float = 0.0
    log_start: int = 0
    failed_starts: int = 0
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_DEATHS))

    def text(self) -> str:
        if self.state == "starting":
            return f"starting ({time.monotonic() - self.started:.0f} s)"
        detail = self.part.detail() if self.state == "running" else ""
        return f"{self.state}  {detail}".rstrip()


def supervise(
    parts: Sequence[Part],
    out: TextIO,
    seconds: float | None = None,
    news: Callable[[], Sequence[str]] = tuple,
) -> int:
    """Runs `parts` until SIGINT, SIGTERM or SIGHUP arrives, `seconds` have passed since all were ready, or one
    is given up. Returns 0, or 1 if a part was given up. The parts' guards leave no process, even if this process is
    killed. `news` returns lines to show above those of the parts.
    """
    all_parts = [_Supervised(part) for part in parts]
    lines = StatusLines([part.name for part in parts], out)
    until: float | None = None
    with stop_signals(signal.SIGHUP) as stopping:
        try:
            while not stopping.is_set():
                for number, one in enumerate(all_parts):
                    if not _tend(one, lines, may_start=all(map(_lets_start, all_parts[:number]))):
                        return 1
                for text in news():
                    lines.say(text)
                if until is None and seconds is not None and all(p.state in _UP for p in all_parts):
                    until = time.monotonic() + seconds
                if until is not None and time.monotonic() >= until:
                    break
                _show(all_parts, lines)
                stopping.wait(TICK_SECONDS)
        finally:
            _stop_all(all_parts, lambda: _show(all_parts, lines))
    return 0


class Supervisor:
    """Runs parts that do not wait for each other, for a caller with a loop of its own. `lines` gets messages only."""

    def __init__(self, lines: StatusLines) -> None:
        self._lines = lines
        self._parts: list[_Supervised] = []

    def start(self, *parts: Part) -> None:
        self._parts += map(_Supervised, parts)
        self.tend()

    def tend(self) -> bool:
        """Restarts parts that have ended; call it often. False if one is given up."""
        kept = [_tend(one, self._lines, may_start=True) for one in self._parts]
        return all(kept)

    def is_up(self, name: str) -> bool:
        """Whether the part of this name is ready."""
        return any(one.part.name == name and one.state in _UP for one in self._parts)

    def stop(self) -> None:
        _stop_all(self._parts, lambda: None)


_UP = ("running", "finished")


def _lets_start(one: _Supervised) -> bool:
    """Whether the parts after this one may start."""
    return one.state in _UP or (not one.part.awaited and one.state != "waiting")


def _tend(one: _Supervised, lines: StatusLines, may_start: bool) -> bool:
    """Advances one part by a step. False if it must be given up."""
    if one.process is None:
        due = may_start if one.state == "waiting" else time.monotonic() >= one.restart_at
        if due and one.state != "finished":
            _start(one)
        return True
    status = one.process.poll()
    if status is None:
        if one.state == "starting" and one.part.ready():
            one.state = "running"
            one.failed_starts = 0
        return True
    # Processes that the part had started must not meet its successor.
    kill_group(one.process.pid)
    one.process = None
    if status == 0 and one.part.may_finish:
        one.state = "finished"
        return True
    return _after_death(one, status, lines)


def _start(one: _Supervised) -> None:
    log = one.part.log
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))
    one.log_start = log.stat().st_size if log.exists() else 0
    one.process = spawn(one.part.command, log, guarded=True, environment=one.part.environment)
    one.state, one.started = "starting", time.monotonic()


def _after_death(one: _Supervised, status: int, lines: StatusLines) -> bool:
    now = time.monotonic()
    one.failed_starts += one.state == "starting"
    one.deaths.append(now)
    # The guard reports a death by signal like a shell; its own death shows as a negative status.
    killed_by = status - 128 if status > 128 else -status
    if killed_by > 0:
        lines.say(f"{one.part.name} was killed by signal {killed_by}")
    else:
        reason = _last_words(one)
        lines.say(f"{one.part.name} ended with status {status}" + (f": {reason}" if reason else ""))
    too_often = len(one.deaths) == MOST_DEATHS and now - one.deaths[0] < 60
    if too_often or one.failed_starts >= MOST_FAILED_STARTS:
        one.state = "failed"
        why = f"{MOST_DEATHS} times in a minute" if too_often else "whenever it was started"
        lines.say(f"tidemark: {one.part.name} ended {why}. Its log tells more: {one.part.log}")
        return False
    recent = sum(now - death < 60 for death in one.deaths)
    one.state, one.restart_at = "restarting", now + 0.5 * 2 ** (recent - 1)
    return True


def _last_words(one: _Supervised) -> str:
    """The last line of the part's latest run with an error, Tidemark's or an exception's."""
    with contextlib.suppress(OSError, ValueError, KeyError), one.part.log.open("rb") as log:
        log.seek(one.log_start)
        for line in reversed(log.read().decode("utf-8", errors="replace").splitlines()):
            if re.match(r'\{.*"level": "error"', line):
                return str(json.loads(line)["message"])
            if re.match(r"tidemark:|[\w.]+(Error|Exception)\b", line):
                return line.removeprefix("tidemark:").strip()
    return ""


def _stop_all(all_parts: Sequence[_Supervised], show: Callable[[], None]) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    remaining = deque(sorted(all_parts, key=lambda p: p.part.stop_order))
    while remaining:
        one = remaining.popleft()
        kept = sum(later.part.stop_seconds for later in remaining if later.process)
        _stop(one, timeout=max(deadline - time.monotonic() - kept, one.part.stop_seconds))
        # The terminal may be gone. The other parts must still be stopped.
        with contextlib.suppress(OSError):
            show()


def _stop(one: _Supervised, timeout: float) -> None:
    process, one.process = one.process, None
    if process is None:
        return
    # Only to the guard, which forwards it to the part. The part stops a JVM that it started.
    process.terminate()
    wait_until(lambda: process.poll() is not None, timeout)
    kill_group(process.pid)
    process.wait()
    if process.stdin:
        process.stdin.close()
    one.state = "stopped"


def _show(all_parts: Sequence[_Supervised], lines: StatusLines) -> None:
    lines.show([(one.state, one.text()) for one in all_parts])
