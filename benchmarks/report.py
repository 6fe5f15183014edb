"""Time of `tidemark report` from the command to the printed figures, of each report that needs no argument. The
reference in the same run is a Python process that only loads pandas and delta-rs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.drain import write
from benchmarks.figures import Figure
from benchmarks.year import file_days
from tidemark.figures.report_specs import BY_NAME

_REFERENCE = "reference: loading pandas and delta-rs"
_IMPORTS = [sys.executable, "-c", "import deltalake, pandas, pyarrow.dataset"]
_DAY = 86_400


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Seconds of wall and CPU time, in turn, over `lines` of a week."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as place:
        log, home = Path(place) / "access.log", Path(place) / "home"
        home.mkdir(mode=0o700)
        write(log, lines, seconds=7 * _DAY, visitors=10_000)
        with file_days({**os.environ, "TIDEMARK_HOME": str(home)}) as take:
            take(log)
        report = [sys.executable, "-m", "tidemark", "--home", str(home), "report"]
        names = [name for name, spec in BY_NAME.items() if not spec.argument]
        commands = {_REFERENCE: _IMPORTS, **{f"report {name}": [*report, name] for name in names}}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                times[name].append(_timed(command))
    figures = []
    for name, of_command in times.items():
        figures.append(Figure(f"{name}, s", [wall for wall, _ in of_command]))
        figures.append(Figure(f"{name}, s of CPU", [cpu for _, cpu in of_command]))
    pairs = zip(times["report overview"], times[_REFERENCE], strict=True)
    return [
        *figures,
        Figure("ratio of the overview to it", [ours / other for (ours, _), (other, _) in pairs]),
    ]


def _timed(command: list[str]) -> tuple[float, float]:
    """Seconds of wall and CPU time of a command, which is too short for the samples of `benchmarks.cpu`."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
    return time.monotonic() - begun, used.ru_utime + used.ru_stime
