"""How fast lines that wait in Kafka get into every table, against DuckDB parsing the same file, and against GoAccess
where it is installed.

Each run has a home and a broker of its own. The start of the JVM is told apart from the work: the rates are those
of the batches, from the first one's start to the last commit, cold code included. The flows run one after the other, so
the first three tables (bronze, silver, visitors by country) have a rate of their own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from benchmarks.cpu import used_by
from benchmarks.figures import Figure
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

START = 1_780_000_200
LINE = r'^(\S+) \S+ (.+?) \[([^\]]+)\] "([^"]*)" (\d{3}) (\d+|-) "([^"]*)" "([^"]*)"$'


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Lines per second of the pipeline and of the reference, and their ratio, run by run."""
    found: list[Drained] = []
    duckdbs, goaccesses = [], []
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log = Path(directory) / "access.log"
        write(log, lines)
        for number in range(runs):
            found.append(drained(Path(directory) / f"home-{number}", log, lines))
            duckdbs.append(lines / parsed(log))
            if shutil.which("goaccess"):
                goaccesses.append(lines / reported(log))
    rates = [run.rate for run in found]
    figures = [
        Figure("drain into every table, lines/s", rates),
        Figure("drain into the first three tables, lines/s", [run.first_tables for run in found]),
        Figure("CPU of all processes, s per million lines", [run.cpu / lines * 1e6 for run in found]),
        Figure("process start to first batch, s", [run.start for run in found]),
        Figure("reference: DuckDB parses the file, lines/s", duckdbs),
        Figure("ratio to DuckDB", [rate / other for rate, other in zip(rates, duckdbs, strict=True)]),
    ]
    if goaccesses:
        figures.append(Figure("reference: GoAccess reports on the file, lines/s", goaccesses))
        ratios = [rate / other for rate, other in zip(rates, goaccesses, strict=True)]
        figures.append(Figure("ratio to GoAccess", ratios))
    return figures


def write(log: Path, lines: int, *, seconds: int = 0, visitors: int = 100_000) -> None:
    """Makes a log of so many lines, over `seconds` of its own time; 500 lines a second unless it says."""
    over = seconds or lines // 500
    traffic = Traffic(start=START, rate=lines / over, seconds=over, seed=1, visitors=visitors)
    left = lines
    with log.open("wb") as file:
        for block in blocks(traffic, truth=False):
            file.writelines(line + b"\n" for line in block.lines[:left])
            left -= len(block.lines[:left])
    assert left == 0, f"{left} lines too few were made"


@dataclass(frozen=True)
class Drained:
    """Of one `tidemark run --once`: lines per second into every table and into the first three, processor time of
    all its processes and seconds before the first batch."""

    rate: float
    first_tables: float
    cpu: float
    start: float


def drained(home: Path, log: Path, lines: int) -> Drained:
    """Runs the pipeline over the lines of the log."""
    with broker.running(Settings(home=home, broker_port=0)) as settings:
        import_files([str(log)], Options(settings, say=lambda text: None))
        kafka = ["--bootstrap-servers", settings.bootstrap_servers]
        begun = time.time()
        run = [sys.executable, "-m", "tidemark", "--home", str(home), *kafka, "run", "--once"]
        process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with used_by(process.pid) as used:
            status = process.wait()
        assert status == 0, f"the pipeline ended with {status}"
    accounts = DeltaTable(str(home / "tables/quality/accounts")).to_pyarrow_table().to_pandas()
    progress = DeltaTable(str(home / "tables/quality/progress")).to_pyarrow_table().to_pandas()
    assert accounts["received"].sum() == lines, "not every line arrived"
    first = accounts["started_at"].min().timestamp()
    lines_done = accounts["committed_at"].max().timestamp()
    last = max(lines_done, progress["recorded_at"].max().timestamp())
    return Drained(lines / (last - first), lines / (lines_done - first), used.seconds, first - begun)


def reported(log: Path) -> float:
    """Seconds that GoAccess takes to make its report."""
    begun = time.perf_counter()
    command = ["goaccess", str(log), "--log-format=COMBINED", "--no-progress", "-o", f"{log}.json"]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begun


def parsed(log: Path) -> float:
    """Seconds that DuckDB takes to parse every line and to count visitors per 5 minutes."""
    fields = "['ip', 'login', 't', 'request', 'status', 'size', 'referrer', 'agent']"
    reading = "columns = {'line': 'VARCHAR'}, header = false, delim = '\x01', quote = '', escape = ''"
    begun = time.perf_counter()
    found = duckdb.sql(
        f"""
        SELECT epoch(try_strptime(g.t, '%d/%b/%Y:%H:%M:%S %z')) // 300 AS w, count(DISTINCT g.ip || g.agent)
        FROM (SELECT regexp_extract(line, '{LINE}', {fields}) AS g FROM read_csv('{log}', {reading}))
        GROUP BY w
        """
    )
    assert found is not None
    found.fetchall()
    return time.perf_counter() - begun
