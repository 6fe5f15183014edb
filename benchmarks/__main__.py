"""`python -m benchmarks [--quick | --full]`: runs every benchmark, prints a table, keeps the figures as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import (
    ads,
    alerts,
    answers,
    cluster,
    costs,
    dashboard,
    drain,
    first_look,
    freshness,
    growth,
    hostile,
    idle,
    large_batch,
    masking,
    objects,
    once,
    overload,
    report,
    stages,
    start,
    synced,
    year,
)
from benchmarks.figures import Figure

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Benchmark:
    """A measuring function and its arguments: `usual` takes minutes; `quick` and `full` (the size of the
    targets) override some of them."""

    measure: Callable[..., list[Figure]]
    usual: Mapping[str, Any]
    quick: Mapping[str, Any]
    full: Mapping[str, Any] = field(default_factory=dict)

    def run(self, size: str, **more: Any) -> list[Figure]:
        other = {"quick": self.quick, "full": self.full}.get(size, {})
        return self.measure(**{**self.usual, **other, **more})


BENCHMARKS = {
    "start": Benchmark(start.measure, {"runs": 5}, quick={"runs": 1}),
    "once": Benchmark(once.measure, {"runs": 5}, quick={"runs": 1}),
    "first_look": Benchmark(
        first_look.measure,
        {"lines": 100_000, "more": 1_000_000, "most": 5_000_000, "runs": 5},
        quick={"lines": 20_000, "more": 50_000, "most": 0, "runs": 1},
    ),
    "report": Benchmark(report.measure, {"lines": 100_000, "runs": 10}, quick={"lines": 10_000, "runs": 1}),
    "objects": Benchmark(
        objects.measure,
        {"objects": 1_000, "lines": 1_000, "runs": 3},
        quick={"objects": 200, "runs": 1},
    ),
    "stages": Benchmark(stages.measure, {"lines": 400_000, "runs": 3}, quick={"lines": 50_000, "runs": 1}),
    "hostile": Benchmark(hostile.measure, {"lines": 5_000, "runs": 3}, quick={"lines": 500, "runs": 1}),
    "costs": Benchmark(
        costs.measure, {"rate": 1_000, "seconds": 300, "runs": 5}, quick={"seconds": 20, "runs": 1}
    ),
    "drain": Benchmark(
        drain.measure, {"lines": 2_000_000, "runs": 3}, quick={"lines": 100_000, "runs": 1, "warm": False}
    ),
    "masking": Benchmark(
        masking.measure, {"lines": 4_000_000, "runs": 3}, quick={"lines": 400_000, "runs": 1}
    ),
    "freshness": Benchmark(
        freshness.at_rates,
        {"rates": (1_000, 10_000), "seconds": 180, "warm_up": 120},
        quick={"rates": (1_000,), "seconds": 10, "warm_up": 8},
        full={"seconds": 600},
    ),
    "steady": Benchmark(
        freshness.with_dashboard,
        {"rate": 5_000, "seconds": 120, "warm_up": 40},
        quick={"seconds": 10, "warm_up": 8},
        full={"seconds": 600},
    ),
    "answers": Benchmark(
        answers.measure,
        {"rate": 1_000, "cached": 50, "uncached": 10, "seconds": 120, "warm_up": 60},
        quick={"seconds": 20, "warm_up": 15},
        full={"seconds": 600},
    ),
    "dashboard": Benchmark(
        dashboard.measure,
        {"lines": 2_000_000, "rounds": 2, "runs": 3, "viewers": 20, "seconds": 20},
        quick={"lines": 100_000, "rounds": 1, "runs": 1, "viewers": 3, "seconds": 10, "ranges": ("24h",)},
        full={"lines": 20_000_000, "rounds": 3, "runs": 5, "seconds": 60},
    ),
    "synced": Benchmark(
        synced.measure,
        {"rate": 1_000, "seconds": 75, "warm_up": 25, "runs": 3},
        quick={"seconds": 10, "warm_up": 8, "runs": 1},
    ),
    "growth": Benchmark(
        growth.measure, {"lines": 2_000_000}, quick={"lines": 100_000}, full={"lines": 20_000_000}
    ),
    "idle": Benchmark(
        idle.measure, {"runs": 3, "seconds": 20, "rest": 15}, quick={"runs": 1, "seconds": 10, "rest": 10}
    ),
    "overload": Benchmark(
        overload.measure, {"rate": 300_000, "seconds": 30}, quick={"rate": 100_000, "seconds": 5}
    ),
    "large_batch": Benchmark(
        large_batch.measure, {"lines": 5_000_000, "heap": "1g"}, quick={"lines": 100_000}
    ),
    "ads": Benchmark(ads.measure, {"number": 2_000_000, "runs": 3}, quick={"number": 50_000, "runs": 1}),
    "cluster": Benchmark(
        cluster.measure, {"lines": 1_000_000, "runs": 3}, quick={"lines": 50_000, "runs": 1}
    ),
    "year": Benchmark(
        year.measure,
        {"days": 60, "lines": 20_000, "kept": {"lines": "14d", "requests": "21d"}},
        quick={"days": 3, "lines": 2_000, "kept": {"lines": "1d", "requests": "2d"}},
        full={"days": 365, "lines": 172_800, "kept": {"lines": "30d", "requests": "90d"}},
    ),
    "year_of_files": Benchmark(
        year.measure_files,
        {"days": 365, "lines": 5_000, "kept": {"lines": "30d", "requests": "90d", "figures": "180d"}},
        quick={"days": 3, "lines": 2_000, "kept": {"lines": "1d", "requests": "2d"}},
        full={"lines": 172_800},
    ),
    "alerts": Benchmark(
        alerts.measure, {"seconds": 300, "warm_up": 180}, quick={"seconds": 20, "warm_up": 40}
    ),
}

# About a cluster, an example, a limit of memory, a decision, and a year: not about the speed of the pipeline on one
# machine.
ONLY_WHEN_NAMED = ("cluster", "alerts", "large_batch", "synced", "year", "year_of_files")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument(
        "--quick", dest="size", action="store_const", const="quick", help="fewer lines and a single run"
    )
    sizes.add_argument(
        "--full",
        dest="size",
        action="store_const",
        const="full",
        help="as long as the targets ask for: hours",
    )
    parser.add_argument("--only", choices=BENCHMARKS, help="run one of them")
    parser.add_argument("--home", help="directory where `dashboard` keeps its lakehouse, to measure it again")
    arguments = parser.parse_args()
    kept = {"dashboard": {"home": arguments.home or ""}}
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    print(machine)
    figures: list[Figure] = []
    for name in [arguments.only] if arguments.only else [n for n in BENCHMARKS if n not in ONLY_WHEN_NAMED]:
        begun = time.monotonic()
        print(f"== {name}", end="", flush=True)
        figures += BENCHMARKS[name].run(arguments.size, **kept.get(name, {}))
        print(f", {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{'figure':<52} {'min':>12} {'median':>12} {'max':>12}")
    for figure in figures:
        print(f"{figure.name:<52} {figure.least:>12,.2f} {figure.median:>12,.2f} {figure.most:>12,.2f}")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    path.write_text(
        json.dumps({"machine": machine, "figures": [f.as_dict() for f in figures]}, indent=1) + "\n"
    )
    print(f"kept in {path}")


if __name__ == "__main__":
    main()
