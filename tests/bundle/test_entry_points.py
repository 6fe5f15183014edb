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

import pytest

from tests.bundle.bundle import ROOT, load
from tests.bundle.test_bundle import SECRET, cluster, parameters, tasks
from tests.catalog.test_catalog import as_directories
from tests.pipeline.harness import assert_equal, fresh, produce
from tests.pipeline.recount import recount
from tests.recovery.killing import traffic
from tidemark.local.jars import spark_jars
from tidemark.local.java import require_java
from tidemark.session import _STREAMING
from tidemark.settings import Settings

SECRETS = {"kafka-username": "unused", "kafka-password": "unused", "visitor-key": "kept in a secret"}
# The order in which a day would see them.
ORDER = ("live", "hourly", "quality", "maintain", "rebuild")


def uv(*arguments: str) -> None:
    command = [str(Path(sys.executable).with_name("uv")), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel and what it depends on."""
    directory = tmp_path_factory.mktemp("clean")
    # As in databricks.yml, but for the place; the build backend is that of this environment.
    uv("build", "--wheel", "--quiet", "--no-build-isolation", "--out-dir", str(directory / "dist"))
    (wheel,) = (directory / "dist").glob("*.whl")
    uv("venv", "--quiet", "--python", sys.executable, str(directory / "venv"))
    python = directory / "venv" / "bin" / "python"
    uv("pip", "install", "--quiet", "--python", str(python), "--link-mode", "hardlink", str(wheel))
    return python


def runtime_packages(directory: Path) -> Path:
    """What a runtime brings: Spark and Delta, and nothing else of this environment."""
    directory.mkdir()
    for name in ("pyspark", "py4j", "delta"):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.submodule_search_locations
        (directory / name).symlink_to(spec.submodule_search_locations[0], target_is_directory=True)
    return directory


def test_without_spark_the_wheel_says_what_to_install(clean_python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(clean_python.with_name("tidemark")), "--home", str(tmp_path), "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == "tidemark: Spark is not installed. Install `tidemark[spark]`.\n"


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_every_task_runs_from_the_installed_wheel(
    clean_python: Path, broker: Settings, tmp_path: Path
) -> None:
    lines = [*traffic(seed=41, lines=800), ("shop", b"no log line")]
    settings = fresh(broker, tmp_path)
    produce(settings, lines)
    bundle = load(
        "prod",
        {
            "catalog": "spark_catalog",
            "bootstrap_servers": settings.bootstrap_servers,
            "topic": settings.topic,
            "kafka_security_protocol": "PLAINTEXT",
            "kafka_sasl_mechanism": "",
        },
    )

    def here(value: str) -> str:
        """A value of the cluster's environment on this machine: secrets filled in, its disks in `tmp_path`."""
        value = SECRET.sub(lambda found: SECRETS[found[2]], value)
        return value.replace("/Volumes/", f"{tmp_path}/Volumes/").replace(
            "/local_disk0/", f"{tmp_path}/disk/"
        )

    planned = {}
    for job, task in tasks(bundle):
        found, wheel = cluster(job, task), task["python_wheel_task"]
        planned[task["task_key"]] = {
            "environment": {name: here(value) for name, value in found["spark_env_vars"].items()},
            "package": wheel["package_name"],
            "entry_point": wheel["entry_point"],
            "parameters": parameters(job, task),
        }
        configuration = found["spark_conf"]
    assert planned.keys() == set(ORDER)
    jars = [str(path) for path in spark_jars(broker)]
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
            "spark.ui.enabled": "false",
        },
        "schema": "spark_catalog.tidemark",
        "tasks": [planned[name] for name in ORDER],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    (tmp_path / "lake").symlink_to(tmp_path / "warehouse" / "tidemark.db", target_is_directory=True)

    done = subprocess.run(
        [str(clean_python), str(ROOT / "tests" / "bundle" / "runtime.py"), str(tmp_path / "plan.json")],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", str(tmp_path)),
            "JAVA_HOME": str(require_java().parent.parent),
            "PYTHONPATH": str(runtime_packages(tmp_path / "runtime")),
            "PYSPARK_PYTHON": str(clean_python),
        },
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert [line for line in done.stdout.splitlines() if line.startswith("tidemark ")] != []
    assert "active session kept: True" in done.stdout
    assert "nothing differs" in done.stdout, "a rebuild by the same rules changes nothing"
    assert_equal(as_directories(settings, tmp_path / "view"), recount(lines))
    for secret in SECRETS.values():
        assert secret == "unused" or secret not in done.stdout + done.stderr
