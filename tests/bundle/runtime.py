"""Stands in for a job cluster: `python runtime.py PLAN` runs tasks one after the other on one Spark session.

As on a cluster the session is there before a task begins, with the cluster's configuration, a catalog and Delta; a
task is the call of an installed package's entry point with its parameters in `sys.argv`. PLAN is a JSON file:
`spark` (configuration), `schema`, `tasks` of (`environment`, `package`, `entry_point`, `parameters`), and `sql`:
statements that are run afterwards, each a line of output with its rows.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def main(plan: dict[str, Any]) -> None:
    builder = SparkSession.builder.master("local[2]").appName("runtime")
    for name, value in plan["spark"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {plan['schema']}")
    os.environ["DATABRICKS_RUNTIME_VERSION"] = "19.x"
    for task in plan["tasks"]:
        started = time.monotonic()
        os.environ.update(task["environment"])
        sys.argv = [task["entry_point"], *task["parameters"]]
        if task["parameters"] == ["run"]:
            threading.Thread(target=_cancel_when_caught_up, args=(task,), daemon=True).start()
        _entry_point(task["package"], task["entry_point"])()
        print(f"{' '.join(sys.argv)}: {time.monotonic() - started:.1f} s", flush=True)
    for statement in plan["sql"]:
        rows = [list(row) for row in spark.sql(statement).collect()]
        print("sql:", json.dumps(rows, default=str), flush=True)
    print("active session kept:", SparkSession.getActiveSession() is not None, flush=True)
    spark.stop()


def _entry_point(package: str, name: str) -> Any:
    result = importlib.metadata.distribution(package).entry_points.select(group="console_scripts", name=name)
    return next(iter(result)).load()


def _cancel_when_caught_up(task: dict[str, Any]) -> None:
    record = Path(task["environment"]["TIDEMARK_HOME"]) / "run" / "pipeline.json"
    while True:
        time.sleep(0.2)
        try:
            flows = json.loads(record.read_text(encoding="utf-8"))["flows"].values()
        except (FileNotFoundError, ValueError):
            continue
        if all(flow["batch_id"] is not None and flow["lag"] == 0 for flow in flows):
            os.kill(os.getpid(), signal.SIGTERM)
            return


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
