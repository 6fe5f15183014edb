"""Cost of validating lines that anybody can cause, by what a visitor sends or by a program that logs beside the server,
compared with ordinary lines in the same run. In one thread of this process, warm; no two lines of a run are alike."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from benchmarks.figures import Figure
from silver import requests
from tidemark.parse.columns import Knowledge

_ARRIVAL = datetime(2026, 12, 1, tzinfo=UTC)
_LENGTH = 8_000
_ORDINARY = "an ordinary line"


def _combined(path: str = "/", referrer: str = "-", agent: str = "curl/8.5.0", more: str = "") -> str:
    time = "21/Nov/2026:10:00:00 +0000"
    return f'203.0.113.7 - - [{time}] "GET {path} HTTP/1.1" 200 512 "{referrer}" "{agent}"{more}'


def _json(**keys: Any) -> str:
    usual = {
        "remote_addr": "203.0.113.7",
        "time_iso8601": "2026-11-21T10:00:00Z",
        "request": "GET / HTTP/1.1",
    }
    return json.dumps({**usual, "status": 200, **keys})


# Each line has its number.
LINES: Mapping[str, Callable[[int], str]] = {
    _ORDINARY: lambda n: _combined(f"/{n}"),
    "an ordinary JSON line": lambda n: _json(id=n),
    "JSON of a program": lambda n: json.dumps({"time": "2026-11-21T10:00:00Z", "level": "info", "order": n}),
    "JSON without a status": lambda n: _json(id=n).replace('"status"', '"state"'),
    "JSON with a fault": lambda n: _json(id=n).replace('"status"', '"status'),
    "JSON with escaped names": lambda n: _json(id=n).replace("request", r"\u0072equest"),
    "JSON with fifty names": lambda n: json.dumps({f"name{each}": n for each in range(50)}),
    "JSON in JSON without a status": lambda n: json.dumps(
        {"time": "2026-11-21", "event": {"id": n, "a": {"b": 1}}}
    ),
    "JSON in JSON in JSON": lambda n: f'{{"time":{n},' + '"event":{' * (_LENGTH // 10) + "}",
    "a long path": lambda n: _combined(f"/{n}".ljust(_LENGTH, "a")),
    "a long query": lambda n: _combined(f"/?id={n}".ljust(_LENGTH, "&")),
    "a long user agent": lambda n: _combined(agent=f"a{n}/1.0 (".ljust(_LENGTH, ";")),
    "a user agent of many names": lambda n: _combined(agent=f"a{n}/1.0 " * 800),
    "a referrer with many labels": lambda n: _combined(
        referrer=f"https://{'a.' * (_LENGTH // 2)}b{n}.example/"
    ),
    "a long list of proxies": lambda n: _combined(more=f' "{", ".join([f"198.51.100.{n % 256}"] * 500)}"'),
    "quotes without escapes": lambda n: _combined(agent=f'"{n} ' * 400),
    "control characters": lambda n: _combined(f"/{n}".ljust(_LENGTH // 4, "\x01")),
    "a line of no format": lambda n: f"{n} ".ljust(_LENGTH, "x"),
}


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Microseconds of CPU time per line, and how many ordinary lines that is."""
    validation = requests.validation(Knowledge(b"k" * 32))
    costs: dict[str, list[float]] = {name: [] for name in LINES}
    for run in range(runs + 1):  # the first one loads code and data
        for name, line in LINES.items():
            batch = _batch([line(number) for number in range(run * lines, (run + 1) * lines)])
            begun = time.process_time()
            validation.make(batch)
            costs[name].append((time.process_time() - begun) / lines * 1e6)
    figures = []
    for name, each in costs.items():
        figures.append(Figure(f"{name}, us of CPU", each[1:]))
        ratios = [cost / ordinary for cost, ordinary in zip(each, costs[_ORDINARY], strict=True)]
        figures.append(Figure(f"{name}, in ordinary lines", ratios[1:]))
    return figures


def _batch(lines: list[str]) -> dict[str, pa.Array]:
    size = len(lines)
    none = pa.nulls(size, pa.string())
    return {
        "value": pa.array([line.encode() for line in lines], pa.binary()),
        "site": pa.array(["default"] * size),
        "kafka_timestamp": pa.array([_ARRIVAL] * size, pa.timestamp("us", "UTC")),
        **dict.fromkeys(("format", "fields", "chunk"), none),
    }
