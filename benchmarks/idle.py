"""CPU of a pipeline that gets no lines, and of its broker, compared with one that asks Kafka as often as Spark does by
default."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.freshness import cpu, running_pipeline
from tidemark.local import broker
from tidemark.settings import Settings

_SPARKS_DEFAULT = "spark.sql.streaming.pollingDelay=10ms"


def measure(*, runs: int, seconds: int, rest: int) -> list[Figure]:
    """Cores used over `seconds`, after `rest` seconds from the start, alternately with the reference."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        root = Path(directory)
        ours, reference = [], []
        for number in range(runs):
            ours.append(_used(root / f"ours-{number}", "", seconds, rest))
            reference.append(_used(root / f"reference-{number}", _SPARKS_DEFAULT, seconds, rest))
    return [
        Figure("idle pipeline and broker, cores", ours),
        Figure("reference: Kafka is asked every 10 ms, cores", reference),
        Figure("ratio", [one / other for one, other in zip(ours, reference, strict=True)]),
    ]


def _used(home: Path, options: str, seconds: int, rest: int) -> float:
    settings = Settings.of(home=home, broker_port=0, spark_options=options)
    with broker.running(settings) as there, running_pipeline(there):
        time.sleep(rest)
        before = cpu()
        time.sleep(seconds)
        after = cpu()
    return sum(after[kind] - before.get(kind, 0.0) for kind in after if kind != "load") / seconds
