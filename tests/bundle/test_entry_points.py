"""Every task of the bundle run as it would be: the wheel in a clean environment, Spark from the runtime.

The wheel is built as the bundle builds it and installed with its dependencies into an environment that has nothing
else. Spark and Delta are not among those: they are put on the path from outside, as a runtime does. Kafka and
Delta are real; the catalog is Spark's own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.bundle import ROOT, load
from tests.bundle.test_bundle import SECRET, cluster, parameters
from tests.catalog.test_catalog import as_directories
from tests.conftest import QUICK_SPARK
from tests.pipeline.harness import assert_equal, fresh, produce
from tests.pipeline.recount import recount
from tests.recovery.killing import traffic
from tidemark.local.jars import spark_jars
from tidemark.local.java import require_java
from tidemark.settings import Settings
from tidemark.settings.sections import options_of
from tidemark.spark import _STREAMING

SECRETS = {"kafka-username": "unused", "kafka-password": "unused", "visitor-key": "kept in a secret"}
# The order in which a day would see them.
ORDER = ("live", "hourly", "quality", "maintain", "rebuild")


def uv(*arguments: str) -> None:
    command = [str(Path(sys.executable).with_name("uv")), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"


def installed(directory: Path, wheel: Path | str, *options: str) -> Path:
    """The Python of a new environment that holds a wheel, perhaps with extras, and what it depends on."""
    uv("venv", "--quiet", "--python", sys.executable, str(directory / "venv"))
    python = directory / "venv" / "bin" / "python"
    uv("pip", "install", "--quiet", "--python", str(python), "--link-mode", "hardlink", *options, str(wheel))
    return python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    # As in databricks.yml, but for the place; the build backend is that of this environment.
    uv("build", "--wheel", "--quiet", "--no-build-isolation", "--out-dir", str(directory))
    return next(directory.glob("*.whl"))


def runtime_packages(directory: Path) -> Path:
    """What a runtime brings: Spark and Delta, and nothing else of this environment."""
    directory.mkdir()
    for name in ("pyspark", "py4j", "delta"):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.submodule_search_locations
        (directory / name).symlink_to(spec.submodule_search_locations[0], target_is_directory=True)
    return directory


def test_without_spark_the_wheel_says_what_to_install(wheel: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(installed(tmp_path, wheel).with_name("tidemark")), "--home", str(tmp_path), "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == "tidemark: Spark is not installed. Install `tidemark[spark]`.\n"


@pytest.mark.cluster
@pytest.mark.parametrize("runtime", ["18", "19"])
def test_nothing_that_a_runtime_has_is_replaced(runtime: str) -> None:
    """With all versions of a Databricks Runtime held, the wheel's dependencies still resolve."""
    held = str(versions(runtime))
    uv("pip", "compile", "--quiet", "--python-version", "3.12", "--constraint", held, "pyproject.toml")


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_every_task_runs_on_the_oldest_versions(wheel: Path, broker: Settings, tmp_path: Path) -> None:
    """The oldest versions that the wheel's bounds allow, and of what it depends on indirectly those of Runtime 18."""
    oldest = ("--resolution", "lowest-direct", "--constraint", str(versions("18")))
    python = installed(tmp_path, wheel, *oldest)
    settings = fresh(broker, tmp_path)
    bundle = load("prod", variables(settings))
    run_every_task(
        python, settings, [*bundle.resources("jobs").values()], [*bundle.resources("alerts").values()]
    )


def versions(runtime: str) -> Path:
    """What a Databricks Runtime has installed, as constraints."""
    return Path(__file__).with_name(f"runtime-{runtime}.txt")


def variables(settings: Settings) -> dict[str, str]:
    """The bundle's variables for the Kafka and the catalog of this machine."""
    return {
        "catalog": "spark_catalog",
        "bootstrap_servers": settings.kafka.bootstrap_servers,
        "topic": settings.kafka.topic,
        "kafka_security_protocol": "PLAINTEXT",
        "kafka_sasl_mechanism": "",
    }


def run_every_task(
    python: Path, settings: Settings, jobs: list[dict[str, Any]], alerts: list[dict[str, Any]]
) -> None:
    """Runs all tasks of the bundle's jobs on lines of a topic, compares the tables, and asks the alerts' queries."""
    tmp_path = settings.home.parent
    lines = [*traffic(seed=41, lines=800), ("shop", b"no log line")]
    produce(settings, lines)

    def local_value(value: str) -> str:
        """A value of the cluster's environment on this machine: secrets filled in, its disks in `tmp_path`."""
        value = SECRET.sub(lambda match: SECRETS[match[2]], value)
        return value.replace("/Volumes/", f"{tmp_path}/Volumes/").replace(
            "/local_disk0/", f"{tmp_path}/disk/"
        )

    planned = {}
    for entry, task in [(job, task) for job in jobs for task in job["tasks"]]:
        result, wheel = cluster(entry, task), task["python_wheel_task"]
        planned[task["task_key"]] = {
            "environment": {name: local_value(value) for name, value in result["spark_env_vars"].items()},
            "package": wheel["package_name"],
            "entry_point": wheel["entry_point"],
            "parameters": parameters(entry, task),
        }
        configuration = result["spark_conf"]
    del planned["import"]  # It needs a library and objects.
    assert planned.keys() == set(ORDER)
    queries = {alert["display_name"].split()[-1]: alert["query_text"] for alert in alerts}
    jars = [str(path) for path in spark_jars(settings.java)]
    plan = {
        "spark": {
            **{
                name: _STREAMING[name]
                for name in _STREAMING
                if name.startswith(("spark.sql.ext", "spark.sql.cat"))
            },
            **configuration,
            "spark.driver.extraClassPath": os.pathsep.join(jars),
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m "
            + configuration["spark.driver.extraJavaOptions"],
            "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.databricks.delta.writeChecksumFile.enabled": "false",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **options_of("spark_options", QUICK_SPARK),
        },
        "schema": "spark_catalog.tidemark",
        "tasks": [planned[name] for name in ORDER],
        "sql": [
            *(queries[name] for name in ("accounting", "freshness")),
            "UPDATE spark_catalog.tidemark.quality_accounts SET received = received + 1 WHERE batch_id = 0",
            queries["accounting"],
            "UPDATE spark_catalog.tidemark.quality_accounts SET received = received - 1 WHERE batch_id = 0",
        ],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    (tmp_path / "lake").symlink_to(tmp_path / "warehouse" / "tidemark.db", target_is_directory=True)

    # Into a file, which tells how far it came if it does not end.
    output = tmp_path / "output"
    with output.open("w", encoding="utf-8") as stream:
        done = subprocess.run(
            [str(python), str(ROOT / "tests" / "bundle" / "runtime.py"), str(tmp_path / "plan.json")],
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "HOME": os.environ.get("HOME", str(tmp_path)),
                "JAVA_HOME": str(require_java().parent.parent),
                "PYTHONPATH": str(runtime_packages(tmp_path / "runtime")),
                "PYSPARK_PYTHON": str(python),
            },
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    printed = output.read_text(encoding="utf-8")

    assert done.returncode == 0, printed[-6000:]
    assert [line for line in printed.splitlines() if line.startswith("tidemark ")] != []
    assert "active session kept: True" in printed
    assert "nothing differs" in printed, "a rebuild by the same rules changes nothing"
    result = [json.loads(line[5:]) for line in printed.splitlines() if line.startswith("sql: ")]
    assert result[0] == [[0]], "the accounting alert fires on tables that are right"
    assert 0 <= result[1][0][0] < 1e9, "the freshness alert does not see the newest line"
    assert result[3][0][0] > 0, "the accounting alert does not see a line too many"
    assert_equal(as_directories(settings, tmp_path / "view"), recount(lines))
    for secret in SECRETS.values():
        assert secret == "unused" or secret not in printed
