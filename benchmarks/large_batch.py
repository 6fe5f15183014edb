"""One batch of millions of lines in a small driver heap: the lines and their rows must not be in the driver.

`tidemark run --once` takes every line in a single batch of `requests`, with `driver_memory` as the JVM's heap.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.cpu import used_by
from benchmarks.drain import write
from benchmarks.figures import Figure
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.settings import Settings


def measure(*, lines: int, heap: str) -> list[Figure]:
    """Lines and seconds of each flow's largest batch, and the resident memory of the largest process."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log, home = Path(directory) / "access.log", Path(directory) / "home"
        write(log, lines)
        with broker.running(Settings.of(home=home, broker_port=0)) as settings:
            import_files([str(log)], Options(settings.kafka, say=lambda text: None))
            log.unlink()
            # A batch is bounded in offsets, of which the marks of transactions take some.
            settings = settings.changed(driver_memory=heap, batch_lines=2 * lines)
            process = subprocess.Popen(
                [sys.executable, "-m", "tidemark", "run", "--once"],
                env={**os.environ, **settings.environment()},
                stdout=subprocess.DEVNULL,
            )
            with used_by(process.pid) as used:
                status = process.wait()
            assert status == 0, f"the pipeline ended with {status}"
        accounts = DeltaTable(str(home / "tables/quality/accounts")).to_pyarrow_table().to_pylist()
        assert [batch["received"] for batch in accounts] == [lines], f"not one batch of {lines}: {accounts}"
        progress = DeltaTable(str(home / "tables/quality/progress")).to_pyarrow_table().to_pandas()
    largest = progress.loc[progress.groupby("flow")["rows"].idxmax()].set_index("flow")
    return [
        *(
            figure
            for flow in ("requests", "activity")
            for figure in (
                Figure(f"{flow}: lines of the largest batch", [int(largest.loc[flow, "rows"])]),
                Figure(f"{flow}: seconds of that batch", [float(largest.loc[flow, "duration_ms"]) / 1000]),
            )
        ),
        Figure("most resident memory of a process, MiB", [used.most_resident]),
    ]
