"""The comparison of the tables with the generator's record, and the kills, on tables and processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tidemark.cli.chaos import Chaos, Counts, counts
from tidemark.cli.week import RECORD
from tidemark.local.directories import prepare_home
from tidemark.local.process import wait_until
from tidemark.local.records import write_record
from tidemark.settings import Settings

SENT = {"from": {"0": 10, "1": 0}, "to": {"0": 13, "1": 2}, "accepted": 4, "rejected": 1, "pageviews": 2}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    generated = Settings.of(home=tmp_path / "home")
    prepare_home(generated)
    requests = [(0, 10, True), (0, 11, False), (1, 0, True), (1, 1, False)]
    # Before the record's offsets, after them, and of another site.
    others = [("default", 0, 9, True), ("default", 1, 2, True), ("mine", 0, 12, True)]
    write(generated, "silver.requests", [("default", *row) for row in requests] + others)
    write(generated, "silver.rejected", [("default", 0, 12)])
    write_gold(generated, 7, 5)
    return generated


def write(settings: Settings, table: str, rows: list[tuple[object, ...]]) -> None:
    columns = dict(zip(KINDS, map(list, zip(*rows, strict=True)), strict=False))
    kinds = pa.schema([(name, kind) for name, kind in KINDS.items() if name in columns])
    data = pa.table(columns, kinds)
    save(settings, table, data, "append")


KINDS = {"site": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "pageview": pa.bool_()}


def write_gold(settings: Settings, requests: int, pageviews: int) -> None:
    data = pa.table({"requests": [requests - 1, 1], "pageviews": [pageviews, 0]})
    save(settings, "gold.visitors_by_country", data, "overwrite")


def save(settings: Settings, table: str, data: pa.Table, mode: str) -> None:
    path = settings.tables / table.replace(".", "/")
    path.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), data, mode=mode)  # type: ignore[call-overload]


def test_the_generators_lines_are_counted_and_no_others(settings: Settings) -> None:
    assert counts(settings, SENT) == Counts(accepted=4, rejected=1, pageviews=2)


def test_a_missing_line_a_repeated_one_and_a_wrong_sum_are_noticed(settings: Settings) -> None:
    assert counts(settings, {**SENT, "from": {"0": 11, "1": 0}}) == Counts(3, 1, 1)
    write_gold(settings, 8, 5)
    assert counts(settings, SENT) is None
    write_gold(settings, 7, 5)
    write(settings, "silver.requests", [("default", 0, 10, True)])
    write_gold(settings, 8, 6)
    assert counts(settings, SENT) is None


def test_without_tables_nothing_is_counted(tmp_path: Path) -> None:
    assert counts(Settings.of(home=tmp_path), SENT) is None


def pipeline(settings: Settings) -> subprocess.Popen[bytes]:
    """A process in the place of the pipeline's."""
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    write_record(settings.run_directory / "pipeline.json", started.pid, state="running")
    return started


@pytest.mark.parametrize(
    ("accepted", "message", "wrong"), [(4, "each once: 4 accepted", 0), (3, "WRONG: sent were 3", 1)]
)
def test_the_pipeline_is_killed_and_the_tables_are_compared(
    settings: Settings, accepted: int, message: str, wrong: int
) -> None:
    write_record(settings.run_directory / RECORD, **{**SENT, "accepted": accepted})
    first, second, news = pipeline(settings), None, []
    try:
        with Chaos(settings, every=0.5) as chaos:
            assert first.wait(60) == -9
            second = pipeline(settings)
            assert wait_until(lambda: news.extend(chaos.news()) or any(message in text for text in news), 60)
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait()
    assert "killing the pipeline with SIGKILL" in news[0]
    assert "the pipeline is back after" in news[1]
    assert chaos.wrong == wrong
    assert f"kills: {chaos.kills}; the counts were exact after {1 - wrong} of 1" in chaos.summary()
