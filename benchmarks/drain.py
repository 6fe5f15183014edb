"""How fast lines that wait in Kafka get into every table, against DuckDB parsing the same file.

Each run has a home and a broker of its own. The start of the JVM is told apart from the work: the rate is that
of the batches, from the first one's start to the last commit, cold code included.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from benchmarks.figures import Figure
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

START = 1_780_000_200
LINE = r'^(\S+) \S+ (.+?) \[([^\]]+)\] "([^"]*)" (\d{3}) (\d+|-) "([^"]*)" "([^"]*)"$'


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Lines per second of the pipeline and of the reference, and their ratio, run by run."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log = Path(directory) / "access.log"
        write(log, lines)
        rates, starts, references = [], [], []
        for number in range(runs):
            rate, start = drained(Path(directory) / f"home-{number}", log, lines)
            rates.append(rate)
            starts.append(start)
            references.append(lines / parsed(log))
    return [
        Figure("drain into every table, lines/s", rates),
        Figure("reference: DuckDB parses the file, lines/s", references),
        Figure("ratio", [rate / reference for rate, reference in zip(rates, references, strict=True)]),
        Figure("process start to first batch, s", starts),
    ]


def write(log: Path, lines: int) -> None:
    rate = 500
    with log.open("wb") as file:
        for block in blocks(Traffic(start=START, rate=rate, seconds=lines // rate, seed=1), truth=False):
            file.writelines(line + b"\n" for line in block.lines)


def drained(home: Path, log: Path, lines: int) -> tuple[float, float]:
    """Lines per second of `tidemark run --once`, and the seconds before its first batch."""
    with broker.running(Settings(home=home, broker_port=0)) as settings:
        import_files([str(log)], Options(settings, say=lambda text: None))
        kafka = ["--bootstrap-servers", settings.bootstrap_servers]
        begun = time.time()
        run = [sys.executable, "-m", "tidemark", "--home", str(home), *kafka, "run", "--once"]
        subprocess.run(run, check=True, capture_output=True)
    accounts = DeltaTable(str(home / "tables/quality/accounts")).to_pyarrow_table().to_pandas()
    progress = DeltaTable(str(home / "tables/quality/progress")).to_pyarrow_table().to_pandas()
    assert accounts["received"].sum() == lines, "not every line arrived"
    first = accounts["started_at"].min().timestamp()
    last = max(accounts["committed_at"].max(), progress["recorded_at"].max()).timestamp()
    return lines / (last - first), first - begun


def parsed(log: Path) -> float:
    """Seconds that DuckDB takes to parse every line and to count visitors per 5 minutes."""
    fields = "['ip', 'login', 't', 'request', 'status', 'size', 'referrer', 'agent']"
    reading = "columns = {'line': 'VARCHAR'}, header = false, delim = '\x01', quote = '', escape = ''"
    begun = time.perf_counter()
    duckdb.sql(
        f"""
        SELECT epoch(try_strptime(g.t, '%d/%b/%Y:%H:%M:%S %z')) // 300 AS w, count(DISTINCT g.ip || g.agent)
        FROM (SELECT regexp_extract(line, '{LINE}', {fields}) AS g FROM read_csv('{log}', {reading}))
        GROUP BY w
        """
    ).fetchall()
    return time.perf_counter() - begun
