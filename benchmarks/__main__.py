"""`python -m benchmarks [--quick]`: runs every benchmark, prints a table, keeps the figures as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import ads, alerts, cluster, drain, freshness, growth, overload, stages, start
from benchmarks.figures import Figure

RESULTS = Path(__file__).parent / "results"


def _drain(quick: bool) -> list[Figure]:
    return drain.measure(lines=100_000 if quick else 2_000_000, runs=1 if quick else 3)


def _freshness(quick: bool) -> list[Figure]:
    seconds = 20 if quick else 180
    rates = (1_000,) if quick else (1_000, 10_000)
    return [figure for rate in rates for figure in freshness.measure(rate=rate, seconds=seconds)]


def _steady(quick: bool) -> list[Figure]:
    return freshness.measure(rate=5_000, seconds=20 if quick else 600, dashboard=True)


def _cluster(quick: bool) -> list[Figure]:
    return cluster.measure(lines=50_000 if quick else 1_000_000, runs=1 if quick else 3)


def _alerts(quick: bool) -> list[Figure]:
    return alerts.measure(seconds=20 if quick else 300, warm_up=40 if quick else 180)


def _stages(quick: bool) -> list[Figure]:
    return stages.measure(lines=100_000 if quick else 400_000, runs=1 if quick else 3)


def _growth(quick: bool) -> list[Figure]:
    return growth.measure(lines=200_000 if quick else 20_000_000)


def _overload(quick: bool) -> list[Figure]:
    return overload.measure(rate=100_000 if quick else 300_000, seconds=10 if quick else 30)


def _start(quick: bool) -> list[Figure]:
    return start.measure(runs=1 if quick else 5)


def _ads(quick: bool) -> list[Figure]:
    return ads.measure(number=50_000 if quick else 1_000_000, runs=1 if quick else 3)


BENCHMARKS: dict[str, Callable[[bool], list[Figure]]] = {
    "start": _start,
    "stages": _stages,
    "drain": _drain,
    "freshness": _freshness,
    "steady": _steady,
    "cluster": _cluster,
    "growth": _growth,
    "overload": _overload,
    "alerts": _alerts,
    "ads": _ads,
}

# Of a cluster, of an example, or long: only when named.
ONLY_WHEN_NAMED = ("cluster", "alerts", "growth", "overload")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer lines and a single run")
    parser.add_argument("--only", choices=BENCHMARKS, help="run one of them")
    arguments = parser.parse_args()
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    print(machine)
    figures: list[Figure] = []
    for name in [arguments.only] if arguments.only else [n for n in BENCHMARKS if n not in ONLY_WHEN_NAMED]:
        print(f"== {name}", flush=True)
        figures += BENCHMARKS[name](arguments.quick)
    print(f"{'figure':<44} {'min':>12} {'median':>12} {'max':>12}")
    for figure in figures:
        print(f"{figure.name:<44} {figure.least:>12,.2f} {figure.median:>12,.2f} {figure.most:>12,.2f}")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    path.write_text(
        json.dumps({"machine": machine, "figures": [f.as_dict() for f in figures]}, indent=1) + "\n"
    )
    print(f"kept in {path}")


if __name__ == "__main__":
    main()
