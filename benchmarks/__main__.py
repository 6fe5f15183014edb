"""`python -m benchmarks [--quick]`: runs every benchmark, prints a table, keeps the figures as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import drain

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer lines and a single run")
    quick = parser.parse_args().quick
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    print(machine)
    figures = drain.measure(lines=100_000 if quick else 2_000_000, runs=1 if quick else 3)
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
