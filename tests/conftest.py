"""Fixtures for all tests: a home, a Spark session, and a real Kafka broker."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path

import hypothesis
import pytest
from pyspark.sql import SparkSession

from tests.cluster.s3_server import S3Server, s3_server
from tidemark.local import broker as embedded
from tidemark.local import durable
from tidemark.settings import Settings
from tidemark.spark import spark_session

# The same examples everywhere and each time, as in CI; `--hypothesis-profile=default` draws others.
hypothesis.settings.load_profile("ci")

# A worker of pytest-xdist has a main module without a file, which PySpark takes for a doctest run, and exits.
if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = __file__

# Tests start hundreds of Python processes: none of them should compile all its modules anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A test is over before compilers would have paid for themselves: the JVM's optimizing one, and Spark's of queries.
# In a process of a few seconds the JVM's other compiler waits for five times as many calls as usual.
LASTING_JVM = "-XX:TieredStopAtLevel=1"
QUICK_JVM = (
    f"{LASTING_JVM} -XX:Tier3InvocationThreshold=1000 -XX:Tier3MinInvocationThreshold=500"
    " -XX:Tier3CompileThreshold=6000"
)
QUICK_SPARK = "spark.sql.codegen.wholeStage=false spark.sql.codegen.factoryMode=NO_CODEGEN"
os.environ.setdefault("TIDEMARK_DRIVER_JAVA_OPTIONS", QUICK_JVM)
os.environ.setdefault("TIDEMARK_BROKER_JAVA_OPTIONS", QUICK_JVM)
os.environ.setdefault("TIDEMARK_SPARK_OPTIONS", QUICK_SPARK)

# A sync waits for what all other processes write. Tests of a power failure sync.
SYNC = durable.sync
durable.sync = lambda directories: None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Marks the tests that share a JVM. Files with slow tests run first: a worker that finishes early then takes over
    short tests, not a long one."""
    for item in items:
        if {"spark", "broker"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("jvm")
    yield  # tests that are not chosen are removed
    slow, jvm = ({item.path for item in items if item.get_closest_marker(name)} for name in ("slow", "jvm"))
    files = [list(tests) for path, tests in groupby(items, lambda item: item.path) if path in slow]
    others = [item for item in items if item.path not in slow]
    others.sort(key=lambda item: item.path not in jvm)
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = parts(files, others, workers)


def parts(
    slow: Sequence[Sequence[pytest.Item]], others: Sequence[pytest.Item], workers: int
) -> Iterator[pytest.Item]:
    """All tests, in the parts of equal size that `--dist worksteal` hands to the workers: each part begins with its
    share of the files with slow tests."""
    total, start = sum(map(len, slow)) + len(others), 0
    for worker in range(workers):
        first = list(chain.from_iterable(slow[worker::workers]))
        size = total * (worker + 1) // workers - total * worker // workers
        end = start + max(size - len(first), 0)
        yield from (*first, *others[start:end])
        start = end
    yield from others[start:]


def pytest_collection_finish() -> None:
    """Python's garbage collector need not look at thousands of tests and modules again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries look for what was never freed


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    """Settings of a fresh home whose ports are any free ones."""
    return Settings.of(home=tmp_path / "home", broker_port=0, broker_java_options=QUICK_JVM, dashboard_port=0)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that the pipeline itself would use, shared by all tests of one process."""
    # Every query leaves some hundred kilobytes in the heap, and a session of half an hour has thousands.
    settings = Settings.of(
        home=tmp_path_factory.mktemp("spark"),
        driver_memory="2g",
        driver_java_options=LASTING_JVM,
        spark_options=f"{QUICK_SPARK} spark.sql.sources.parallelPartitionDiscovery.parallelism=2",
    )
    session = spark_session(settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings with the address of an embedded broker that all tests share: give topics names of your own."""
    settings = Settings.of(
        home=tmp_path_factory.mktemp("broker"),
        broker_port=0,
        broker_java_options=QUICK_JVM,
        dashboard_port=0,
        # What follows at an interval is awaited by many tests.
        derive_interval_seconds=0.5,
    )
    with embedded.running(settings) as there:
        yield there


@pytest.fixture(scope="session")
def s3_server_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server that all tests share: give paths of your own."""
    directory = tmp_path_factory.mktemp("s3")
    with s3_server(Settings.of(home=directory / "home"), directory) as server:
        yield server
