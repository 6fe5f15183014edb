"""The cost of `mode = "masked"`: in turn, over the same log, a drain of exact lines, one of lines that the
pipeline masks, and one of lines that were masked before they were sent."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.drain import Drained, drained, write
from benchmarks.figures import Figure

MASKED = '[privacy]\nmode = "masked"\n'


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Warm lines per second and CPU seconds per million lines of each, and their ratios to exact lines, run by run."""
    exact, masks, reads = [], [], []
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        root = Path(directory)
        log = root / "access.log"
        write(log, lines)
        for number in range(runs):
            exact.append(drained(root / f"exact-{number}", log, lines))
            masks.append(drained(root / f"masks-{number}", log, lines, toml=MASKED))
            reads.append(drained(root / f"reads-{number}", log, lines, toml=MASKED, at_the_door=True))
    return [
        *_figures("exact lines", exact, exact),
        *_figures("lines that the pipeline masks", masks, exact),
        *_figures("lines masked before they were sent", reads, exact),
    ]


def _figures(name: str, runs: list[Drained], exact: list[Drained]) -> list[Figure]:
    pairs = list(zip(runs, exact, strict=True))
    figures = [
        Figure(f"{name}: warm, lines/s", [run.warm.rate for run in runs]),
        Figure(f"{name}: warm CPU, s per million lines", [run.warm.cpu for run in runs]),
    ]
    if runs is not exact:
        figures += [
            Figure(f"{name}: ratio of lines/s", [run.warm.rate / other.warm.rate for run, other in pairs]),
            Figure(f"{name}: ratio of CPU", [run.warm.cpu / other.warm.cpu for run, other in pairs]),
        ]
    return figures
