"""Prints the averages as lines of text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC
from typing import Any

from examples.kit.results import Results
from examples.sensors.averages import AVERAGES
from examples.sensors.sequences import SEQUENCES

MOST_MOVES = 5


def show(results: Results) -> Iterator[str]:
    """A line for each minute that changed, by each clock, for the newest rolling one, and for what moved."""
    windows: defaultdict[tuple[str, Any], list[dict[str, Any]]] = defaultdict(list)
    for row in results.fresh(AVERAGES).to_pylist():
        windows[row["kind"], row["window_start"]].append(row)
    newest = max((start for kind, start in windows if kind == "rolling"), default=None)
    for (kind, start), rows in sorted(windows.items()):
        if kind != "rolling" or start == newest:
            state = {True: "final", False: "early", None: ""}[rows[0]["final"]]
            late = sum(row["late"] for row in rows)
            yield f"{kind:<10} {start.astimezone(UTC):%H:%M:%S} {state:<5} {_values(rows)}" + (
                f"  ({late} late)" if late else ""
            )
    moved = [row for row in results.fresh(SEQUENCES).to_pylist() if row["kind"] == "moved"]
    for row in moved[-MOST_MOVES:]:
        yield f"moved      {row['sensor']}: was {row['average']:.2f} for {row['readings']} readings"
    if len(moved) > MOST_MOVES:
        yield f"moved      and {len(moved) - MOST_MOVES} times more"
    last = {row["sensor"]: row for row in results.table(SEQUENCES).to_pylist() if row["kind"] == "last_100"}
    if windows and last:
        yield f"last 100                  {_values(list(last.values()))}"


def _values(rows: list[dict[str, Any]]) -> str:
    return "  ".join(f"{r['sensor']} {r['average']:.2f}" for r in sorted(rows, key=lambda r: r["sensor"]))
