"""Cost of reading the lines of each log format, in one thread of this process, warm."""

from __future__ import annotations

import time

import pyarrow as pa

from benchmarks.figures import Figure
from tidemark.parse.detect import fields
from tidemark.parse.formats import FORMATS
from tidemark.traffic.lines import lines_of
from tidemark.traffic.robots import Hit
from tidemark.traffic.sinks import headers_of
from tidemark.traffic.stream import Traffic, blocks

_WARM_UPS = 2
_BATCH = 10_000


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Lines per second of CPU time, by format: detected line by line where the format can be."""
    traffic = Traffic(start=1_780_000_000, rate=500, seconds=max(1, lines // 500), seed=1, visitors=5_000)
    hits = [(second, hit) for block in blocks(traffic) for second, hit, _ in block.outcomes]
    rates: dict[str, list[float]] = {name: [] for name in FORMATS}
    batches = {name: _batches(name, hits) for name in FORMATS}
    for _ in range(_WARM_UPS + runs):
        for name in FORMATS:
            begun = time.process_time()
            for batch in batches[name]:
                fields(batch)
            rates[name].append(len(hits) / (time.process_time() - begun))
    return [Figure(f"parse {name}, lines/s of CPU", rates[name][_WARM_UPS:]) for name in FORMATS]


def _batches(name: str, hits: list[tuple[int, Hit]]) -> list[dict[str, pa.Array]]:
    headers = dict(headers_of(Traffic(start=0, format=name)))
    texts = {each: headers[each].decode() if each in headers else None for each in ("format", "fields")}
    lines = lines_of(name, hits)
    return [
        {"value": pa.array(part, pa.binary()), "site": pa.array(["default"] * len(part))}
        | {each: pa.array([text] * len(part), pa.string()) for each, text in texts.items()}
        for part in (lines[start : start + _BATCH] for start in range(0, len(lines), _BATCH))
    ]
