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

_IMPORTS = [sys.executable, "-c", "import deltalake, pandas, pyarrow.dataset"]
_DAY = 86_400


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Seconds of wall and CPU time, in turn, over `lines` of a week."""
    names = [name for name, spec in BY_NAME.items() if not spec.argument]
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as place:
        log, home = Path(place) / "access.log", Path(place) / "home"
        home.mkdir(mode=0o700)
        write(log, lines, seconds=7 * _DAY, visitors=10_000)
        with file_days({**os.environ, "TIDEMARK_HOME": str(home)}) as take:
            take(log)
        imports: list[tuple[float, float]] = []
        reports: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for _ in range(runs):
            imports.append(_timed(_IMPORTS))
            for name in names:
                command = [sys.executable, "-m", "tidemark", "--home", str(home), "report", name]
                reports[name].append(_timed(command))
    figures = []
    for name, times in {"reference: loading pandas and delta-rs": imports, **reports}.items():
        label = f"report {name}" if name in reports else name
        figures.append(Figure(f"{label}, s", [wall for wall, _ in times]))
        figures.append(Figure(f"{label}, s of CPU", [cpu for _, cpu in times]))
    overview = zip(reports["overview"], imports, strict=True)
    return [
        *figures,
        Figure("ratio of the overview to it", [ours / other for (ours, _), (other, _) in overview]),
    ]


def _timed(command: list[str]) -> tuple[float, float]:
    """Seconds of wall and CPU time of a command."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
    return time.monotonic() - begun, used.ru_utime + used.ru_stime
