"""A home over a year: its processes start every day, and stop after the lines of the day, upkeep and retention.

A clock that is set forward by a day at a time makes a year last hours, or less than one without Kafka and Spark. Sizes
of all parts of the home, memory, and seconds of each report and each page of the dashboard are taken ten times; all
should stay the same once the first lines have expired.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path

from benchmarks.cpu import used_by
from benchmarks.drain import write
from benchmarks.figures import Figure
from benchmarks.growth import FUNNEL
from benchmarks.panels import drawn
from tests.recovery.clock import SteppingClock
from tidemark.figures.declared import declared
from tidemark.figures.question import question
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.report import report
from tidemark.figures.report_specs import BY_NAME
from tidemark.figures.rows import Rows
from tidemark.settings import Settings

_DAY = 86_400
_SAMPLES = 10
# Reports and pages cover the last days, as on each of them.
_REPORTED = timedelta(days=7)
_RANGE = "7d"
_REPORTS = tuple(name for name, spec in BY_NAME.items() if spec.common and not spec.argument)

# Takes the log of a day. Returns seconds of all of it, and the peak MiB of the largest process that read the lines.
Day = Callable[[Path], tuple[float, float]]


def measure(*, days: int, lines: int, kept: Mapping[str, str]) -> list[Figure]:
    """For each tenth of the days: MiB of each part of the home, MiB of the pipeline's largest process, and seconds of
    the day's commands, of the reports and of the pages. `lines` are those of a day, `kept` the table `[retention]`."""
    return _measured(_commands, days, lines, kept)


def measure_files(*, days: int, lines: int, kept: Mapping[str, str]) -> list[Figure]:
    """The same without Kafka and Spark, as `tidemark view` reads files."""
    return _measured(file_days, days, lines, kept)


def _measured(
    started: Callable[[Mapping[str, str]], AbstractContextManager[Day]],
    days: int,
    lines: int,
    kept: Mapping[str, str],
) -> list[Figure]:
    samples: dict[str, list[float]] = {}
    every = max(1, days // _SAMPLES)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as place:
        clock = SteppingClock.of(Path(place))
        home = Path(place) / "home"
        settings = Settings.of(home=home, broker_port=0, dashboard_port=0)
        environment = {**os.environ, **settings.environment(), **clock.environment}
        home.mkdir(mode=0o700)
        ages = "".join(f'{name} = "{age}"\n' for name, age in kept.items())
        (home / "tidemark.toml").write_text(f"{FUNNEL}\n[retention]\n{ages}", encoding="utf-8")
        began = int(time.time())
        with started(environment) as take, closing(_logs(Path(place), days, lines, began)) as logs:
            for day, log in enumerate(logs):
                start = began + day * _DAY
                clock.set((day + 1) * _DAY)
                seconds, memory = take(log)
                log.unlink()
                if (day + 1) % every == 0:
                    figures = {
                        "a day, s": seconds,
                        "most resident memory of a process, MiB": memory,
                        **_asked(home, datetime.fromtimestamp(start + _DAY, UTC), environment),
                        **{f"size of {part}, MiB": size for part, size in _sizes(home).items()},
                    }
                    for name, value in figures.items():
                        samples.setdefault(name, []).append(value)
                    whole = sum(_sizes(home).values())
                    print(f"\n  day {day + 1}: {whole:.0f} MiB, {seconds:.0f} s", end="", flush=True)
    for name, values in {"day": [*range(every, days + 1, every)], **samples}.items():
        print(f"\n  {name:<50}", *(f"{value:>8.2f}" for value in values), end="")
    return [Figure(name, values) for name, values in samples.items()]


def _logs(place: Path, days: int, lines: int, began: int) -> Generator[Path, None, None]:
    """The logs of the days, each of which is written while the one before is read."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as writer:

        def written(day: int) -> tuple[Path, Future[None]]:
            log = place / f"access-{day}.log"
            return log, writer.submit(write, log, lines, start=began + day * _DAY, seconds=_DAY)

        following = written(0)
        for day in range(days):
            log, done = following
            done.result()
            if day + 1 < days:
                following = written(day + 1)
            yield log


@contextmanager
def _commands(environment: Mapping[str, str]) -> Iterator[Day]:
    def take(log: Path) -> tuple[float, float]:
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

    yield take


@contextmanager
def file_days(environment: Mapping[str, str]) -> Iterator[Day]:
    command = [sys.executable, "-m", "benchmarks.file_days", environment["TIDEMARK_HOME"]]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def take(log: Path) -> tuple[float, float]:
        stdin.write(f"{log}\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise RuntimeError(f"benchmarks.file_days ended with {process.wait()}")
        seconds, memory = json.loads(answer)
        return seconds, memory

    with process:
        yield take


def _asked(home: Path, now: datetime, environment: Mapping[str, str]) -> dict[str, float]:
    """Seconds of each report and of each page of the last days."""
    pages = drawn(home, reach=_RANGE, environment=environment)
    return {
        **{f"report {name} of a week, s": _reported(home, name, now) for name in _REPORTS},
        **{figure.name: figure.median for figure in pages if not figure.name.endswith("each panel, s")},
    }


def _reported(home: Path, name: str, now: datetime) -> float:
    """Seconds of a report of the last days, with a new reader; the least of three."""
    ends = {"from": (f"{now - _REPORTED:%Y-%m-%d}",), "to": (f"{now:%Y-%m-%d}",)}
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        report(Rows(DeltaReader(home)), question(name, ends, declared(home)))
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
