"""What Spark's JVM writes to a temporary directory is in the home, and gone at the start after a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import processes
from tidemark.local.directories import prepare_home, temporary_directory
from tidemark.local.process import wait_until
from tidemark.settings import Settings

PROGRAM = """
import sys
from tidemark.spark import spark_session
from tidemark.settings import load
spark = spark_session(load({"home": sys.argv[1]}))
spark.range(10).repartition(3).count()
print("ready", flush=True)
sys.stdin.read()
"""


def names(directory: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in directory.iterdir())


def test_a_killed_spark_leaves_nothing_and_a_live_one_keeps_its_files(tmp_path: Path) -> None:
    home = Settings.of(home=tmp_path / "a home")
    process = processes.Popen(
        [sys.executable, "-c", PROGRAM, str(home.home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    assert process.stdout.readline() == "ready\n"
    (theirs,) = (home.home / "tmp").iterdir()
    assert {"artifacts", "blockmgr", "spark"} <= set(names(theirs))
    ours = temporary_directory(home)
    assert theirs.exists() and ours.exists() and list(theirs.iterdir())
    process.kill()
    process.wait()

    def cleaned() -> bool:  # the JVM ends a moment after the Python that started it
        temporary_directory(home)
        return not theirs.exists()

    assert wait_until(cleaned, 30)
    assert ours.exists()


def test_each_process_has_one_of_its_own(home: Settings) -> None:
    prepare_home(home)
    first, second = temporary_directory(home), temporary_directory(home)
    assert first != second and first.exists() and second.exists()
