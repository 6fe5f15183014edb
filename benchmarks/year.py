"""A home over a year: broker and pipeline start every day, and stop after the lines of the day, upkeep and retention.

A clock that is set forward by a day at a time makes a year last hours. Sizes of all parts of the home, the pipeline's
memory, and seconds of each report are taken ten times; all should stay the same once the first lines have expired.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.cpu import used_by
from benchmarks.drain import write
from benchmarks.figures import Figure
from tests.recovery.clock import SteppingClock
from tidemark.figures.declared import declared
from tidemark.figures.question import question
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.report import report
from tidemark.figures.report_specs import BY_NAME
from tidemark.figures.rows import Direct
from tidemark.settings import Settings

_DAY = 86_400
_SAMPLES = 10
# Reports cover the last days, as on each of them.
_REPORTED = timedelta(days=7)
_REPORTS = tuple(
    name
    for name, spec in BY_NAME.items()
    if spec.common and not any(each.argument for each in spec.parameters)
)


def measure(*, days: int, lines: int, kept: Mapping[str, str]) -> list[Figure]:
    """For each tenth of the days: MiB of each part of the home, MiB of the pipeline's largest process, and seconds of
    the day's commands and of the reports. `lines` are those of a day, `kept` the table `[retention]`."""
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as place:
        clock = SteppingClock.of(Path(place))
        home, log = Path(place) / "home", Path(place) / "access.log"
        settings = Settings.of(home=home, broker_port=0, dashboard_port=0)
        environment = {**os.environ, **settings.environment(), **clock.environment}
        home.mkdir(mode=0o700)
        ages = "".join(f'{name} = "{age}"\n' for name, age in kept.items())
        (home / "tidemark.toml").write_text(f"[retention]\n{ages}", encoding="utf-8")
        began = int(time.time())
        for day in range(days):
            start = began + day * _DAY
            write(log, lines, start=start, seconds=_DAY)
            clock.set((day + 1) * _DAY)
            seconds, memory = _day(environment, log)
            if (day + 1) % max(1, days // _SAMPLES) == 0:
                now = datetime.fromtimestamp(start + _DAY, UTC)
                figures = {
                    "commands of a day, s": seconds,
                    "most resident memory of a process, MiB": memory,
                    **{f"report {name} of a week, s": _reported(home, name, now) for name in _REPORTS},
                    **{f"size of {part}, MiB": size for part, size in _sizes(home).items()},
                }
                for name, value in figures.items():
                    samples.setdefault(name, []).append(value)
                print(
                    f"\n  day {day + 1}: {sum(_sizes(home).values()):.0f} MiB, {seconds:.0f} s",
                    end="",
                    flush=True,
                )
    return [Figure(name, values) for name, values in samples.items()]


def _day(environment: Mapping[str, str], log: Path) -> tuple[float, float]:
    """Takes the lines of a day. Returns seconds of all commands, and the peak MiB of the pipeline's largest process."""
    begun = time.perf_counter()
    memory = 0.0
    for command in (
        ["broker", "start"],
        ["import", str(log)],
        ["run", "--once"],
        ["maintain"],
        ["broker", "stop"],
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "tidemark", *command], env=environment, stdout=subprocess.DEVNULL
        )
        with used_by(process.pid) as used:
            if process.wait() != 0:
                raise RuntimeError(f"tidemark {' '.join(command)} ended with {process.returncode}")
        if command[0] == "run":
            memory = used.most_resident
    return time.perf_counter() - begun, memory


def _reported(home: Path, name: str, now: datetime) -> float:
    """Seconds of a report of the last days, with a new reader; the least of three."""
    ends = {"from": (f"{now - _REPORTED:%Y-%m-%d}",), "to": (f"{now:%Y-%m-%d}",)}
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        report(Direct(DeltaReader(home)), question(name, ends, declared(home)))
        times.append(time.perf_counter() - begun)
    return min(times)


def _sizes(home: Path) -> dict[str, float]:
    """MiB of each table, and of each other directory of the home."""
    tables = [*(home / "tables").glob("*/*")]
    parts = [*tables, *(each for each in home.iterdir() if each.name != "tables")]
    return {str(part.relative_to(home)): _bytes(part) / 2**20 for part in parts}


def _bytes(part: Path) -> int:
    files = part.rglob("*") if part.is_dir() else [part]
    return sum(file.stat().st_blocks * 512 for file in files if file.is_file())
