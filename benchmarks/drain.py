"""Rate at which lines that wait in Kafka get into every table, compared with DuckDB parsing the same file, and with
GoAccess where it is installed.

Each run has its own home and broker. Rates exclude the start, of the JVM and of the workers that load the code: they
are measured from the start of the first batch to the last commit, with cold code. The flows run one after the other, so
the first three tables (bronze, silver, visitors by country) have a separate rate. "Warm" are the batches after the
first one of each flow, in a run over four times as many lines.
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
import pandas as pd
from deltalake import DeltaTable

from benchmarks.cpu import Used, used_by
from benchmarks.figures import Figure
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.privacy.door import Door
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

START = 1_780_000_200
LINE = r'^(\S+) \S+ (.+?) \[([^\]]+)\] "([^"]*)" (\d{3}) (\d+|-) "([^"]*)" "([^"]*)"$'


def measure(*, lines: int, runs: int, warm: bool = True) -> list[Figure]:
    """Lines per second of the pipeline and of the reference, and their ratio, run by run."""
    drains: list[Drained] = []
    warmed: list[Warm] = []
    # Several batches of each flow: `activity` takes up to two million lines at once.
    more = 4 * lines
    duckdbs, goaccesses = [], []
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log, longer = Path(directory) / "access.log", Path(directory) / "longer.log"
        write(log, lines)
        if warm:
            write(longer, more)
        for number in range(runs):
            drains.append(drained(Path(directory) / f"home-{number}", log, lines))
            if warm:
                warmed.append(drained(Path(directory) / f"longer-{number}", longer, more).warm)
            duckdbs.append(lines / parsed(log))
            if shutil.which("goaccess"):
                goaccesses.append(lines / reported(log))
    rates = [run.rate for run in drains]
    figures = [
        Figure("drain into every table, lines/s", rates),
        Figure("drain into the first three tables, lines/s", [run.first_tables for run in drains]),
        Figure("CPU of all processes, s per million lines", [run.cpu / lines * 1e6 for run in drains]),
        Figure("process start to first batch, s", [run.start for run in drains]),
        Figure("reference: DuckDB parses the file, lines/s", duckdbs),
        Figure("ratio to DuckDB", [rate / other for rate, other in zip(rates, duckdbs, strict=True)]),
    ]
    if goaccesses:
        figures.append(Figure("reference: GoAccess reports on the file, lines/s", goaccesses))
        ratios = [rate / other for rate, other in zip(rates, goaccesses, strict=True)]
        figures.append(Figure("ratio to GoAccess", ratios))
        whole = [lines / (run.start + lines / run.rate) for run in drains]
        ratios = [rate / other for rate, other in zip(whole, goaccesses, strict=True)]
        figures.append(Figure("ratio to GoAccess, with the start of the process", ratios))
    if warm:
        figures += [
            Figure("warm: into every table, lines/s", [run.rate for run in warmed]),
            Figure("warm: into the first three tables, lines/s", [run.first_tables for run in warmed]),
            Figure("warm: CPU, s per million lines", [run.cpu for run in warmed]),
        ]
    if warm and goaccesses:
        ratios = [run.rate / other for run, other in zip(warmed, goaccesses, strict=True)]
        figures.append(Figure("warm: ratio to GoAccess", ratios))
    return figures


def write(log: Path, lines: int, *, start: int = START, seconds: int = 0, visitors: int = 100_000) -> None:
    """Writes a log of this many lines over `seconds` of event time; default: 500 lines per second."""
    over = seconds or lines // 500
    traffic = Traffic(start=start, rate=lines / over, seconds=over, seed=1, visitors=visitors)
    left = lines
    with log.open("wb") as file:
        for block in blocks(traffic, truth=False):
            file.writelines(line + b"\n" for line in block.lines[:left])
            left -= len(block.lines[:left])
    assert left == 0, f"{left} lines too few were made"


@dataclass(frozen=True)
class Warm:
    """For each flow's rows after its first batch: lines per second into every table and the first three, seconds of
    CPU time per million lines."""

    rate: float
    first_tables: float
    cpu: float


@dataclass(frozen=True)
class Drained:
    """Figures of one `tidemark run --once`: lines per second into every table and into the first three, CPU time of
    all its processes, seconds before the first batch, and the same figures when warm."""

    rate: float
    first_tables: float
    cpu: float
    start: float
    warm: Warm


def drained(home: Path, log: Path, lines: int, *, toml: str = "", at_the_door: bool = False) -> Drained:
    """Runs the pipeline over the lines of the log, with a settings file of this text; the lines are masked already when
    they are sent, or by the pipeline."""
    home.mkdir(mode=0o700, parents=True)
    (home / "tidemark.toml").write_text(toml, encoding="utf-8")
    with broker.running(Settings.of(home=home, broker_port=0)) as settings:
        door = Door.of(settings) if at_the_door else None
        import_files([str(log)], Options(settings.kafka, door=door, say=lambda text: None))
        kafka = ["--bootstrap-servers", settings.kafka.bootstrap_servers]
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
    return Drained(
        rate=lines / (last - first),
        first_tables=lines / (lines_done - first),
        cpu=used.seconds,
        start=first - begun,
        warm=_warm(progress, used),
    )


def _warm(progress: pd.DataFrame, used: Used) -> Warm:
    """Figures of each flow's batches after its first one; NaN if that was the last."""
    seconds, cpu = {}, 0.0
    for flow, batches in progress.sort_values("recorded_at").groupby("flow"):
        times, rows = batches["recorded_at"], max(batches["rows"].iloc[1:].sum(), 1)
        begun, ended = times.iloc[0].timestamp(), times.iloc[-1].timestamp()
        seconds[flow] = (ended - begun) / rows
        cpu += used.between(begun, ended) / rows
    if not all(seconds.values()):
        return Warm(*(3 * [float("nan")]))
    return Warm(1 / sum(seconds.values()), 1 / seconds["requests"], cpu * 1e6)


def reported(log: Path) -> float:
    """Seconds that GoAccess takes for its report."""
    begun = time.perf_counter()
    command = ["goaccess", str(log), "--log-format=COMBINED", "--no-progress", "-o", f"{log}.json"]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begun


def parsed(log: Path) -> float:
    """Seconds that DuckDB takes to parse every line and to count visitors per 5 minutes."""
    fields = "['ip', 'login', 't', 'request', 'status', 'size', 'referrer', 'agent']"
    reading = "columns = {'line': 'VARCHAR'}, header = false, delim = '\x01', quote = '', escape = ''"
    begun = time.perf_counter()
    relation = duckdb.sql(
        f"""
        SELECT epoch(try_strptime(g.t, '%d/%b/%Y:%H:%M:%S %z')) // 300 AS w, count(DISTINCT g.ip || g.agent)
        FROM (SELECT regexp_extract(line, '{LINE}', {fields}) AS g FROM read_csv('{log}', {reading}))
        GROUP BY w
        """
    )
    assert relation is not None
    relation.fetchall()
    return time.perf_counter() - begun
