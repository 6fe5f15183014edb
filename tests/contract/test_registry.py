"""Tables are found in their packages, and other packages' tables are treated like Tidemark's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, fresh, produce, rows, run_here
from tests.pipeline.recount import recount
from tests.recovery.killing import traffic
from tidemark.contract.registry import LAYERS, tables
from tidemark.operate import status
from tidemark.settings import Settings

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "requests_by_status"
NAME = "gold.requests_by_status"


def test_every_module_of_a_layer_declares_the_table_of_its_name() -> None:
    modules = {f"{layer}.{path.stem}" for layer in LAYERS for path in (ROOT / layer).glob("[!_]*.py")}
    assert {table.name for table in tables()} == modules


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the example package installed."""
    built, target = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built)]
    subprocess.run(build, cwd=PACKAGE, check=True, capture_output=True, timeout=120)
    (wheel,) = built.glob("*.whl")
    uv = Path(sys.executable).with_name("uv")
    install = [uv, "pip", "install", "--offline", "--no-deps", "--target", target, wheel]
    subprocess.run(list(map(str, install)), check=True, capture_output=True, timeout=120)
    return target


def tidemark(
    settings: Settings, installed: Path, *command: str, crash_at: str = ""
) -> subprocess.CompletedProcess[str]:
    """The command with the package installed, which works history off in small parts."""
    environment = {
        **os.environ,
        **settings.environment(),
        "PYTHONPATH": os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "TIDEMARK_CRASH_AT": crash_at,
    }
    return subprocess.run(
        [sys.executable, "-c", _IN_SMALL_PARTS, *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
    )


_IN_SMALL_PARTS = """
from tidemark.operate import staging
staging.CHUNK_ROWS = 300
from tidemark.cli import main
main()
"""


def progress(settings: Settings) -> tuple[int, int]:
    """Parts done and parts in all of the table's history, which `status` and the dashboard's table tell alike."""
    state = status.describe(settings)
    part = state["history"][NAME]
    line = f"{NAME} is incomplete: backfill of its history, {part['done']} of {part['total']} parts done"
    assert line in status.lines(state)
    result = rows(settings, "quality.tables", ["table", "package", "complete", "done", "total"])
    assert [row for row in result if not row[2]] == [
        (NAME, "tidemark-requests-by-status", False, part["done"], part["total"])
    ]
    return part["done"], part["total"]


@pytest.mark.timeout(600)
def test_a_table_of_another_package_is_filled_with_history(
    broker: Settings, spark: SparkSession, tmp_path: Path, installed: Path
) -> None:
    settings = fresh(broker, tmp_path)
    lines = traffic(seed=9, lines=3_000, rate=4)  # over twelve minutes
    produce(settings, lines[:1_000])
    run_here(spark, settings)
    produce(settings, lines[1_000:2_000])

    # Killed after its third part: what came since the table is there counts, and the home says what is missing.
    killed = tidemark(settings, installed, "run", "--once", crash_at="rebuild:staging@3")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert 0 < counted(settings) < len(rows(settings, "silver.requests", ["offset"]))
    done, total = progress(settings)
    assert 2 <= done <= 3 and total > 3  # the kill came before the third part was recorded

    # It goes on after the third part, and takes the lines that came meanwhile.
    produce(settings, lines[2_000:])
    done_at_last = tidemark(settings, installed, "run", "--once")
    assert done_at_last.returncode == 0, done_at_last.stderr
    assert f"3 of {total} parts of {NAME} are staged already" in done_at_last.stderr
    silver = rows(settings, "silver.requests", ["site", "event_time", "status"])
    expected = Counter((site, second // 3600 * 3600, status) for site, second, status in silver)  # type: ignore[operator]
    result = rows(settings, NAME, ["site", "window_start", "status", "requests"])
    assert {row[:3]: row[3] for row in result} == expected
    assert status.describe(settings)["history"] == {}
    assert (NAME, True) in rows(settings, "quality.tables", ["table", "complete"])
    assert_equal(settings, recount(lines))


def counted(settings: Settings) -> int:
    return sum(n for (n,) in rows(settings, NAME, ["requests"]))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ("missing_module:TABLE", "it cannot be loaded: ModuleNotFoundError"),
        ("json:dumps", "it is a function, not a tidemark.contract.table.Table"),
        ("gold.traffic:TABLE", "there is a table gold.traffic already"),
    ],
)
def test_a_package_whose_table_cannot_be_used_is_one_error(
    home: Settings, tmp_path: Path, declared: str, why: str
) -> None:
    info = tmp_path / "site" / "odd-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[tidemark.tables]\nodd = {declared}\n")
    done = tidemark(home, info.parent, "run", "--once")
    assert done.returncode == 1
    assert "the table odd of the package odd cannot be used" in done.stderr and why in done.stderr
    assert "Traceback" not in done.stderr
