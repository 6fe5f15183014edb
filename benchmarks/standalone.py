"""A real Spark standalone cluster on one machine: a master, and workers with separate addresses."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from tidemark.local.java import require_java
from tidemark.local.ports import free_port
from tidemark.local.process import wait_until

SPARK = Path(pyspark.__file__).parent
START_SECONDS = 60.0


@dataclass
class Standalone:
    """A running cluster. Workers are identified by their addresses, from 127.0.0.2 (Linux has all of 127/8)."""

    directory: Path
    port: int = field(default_factory=free_port)
    page: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def events(self) -> Path:
        return self.directory / "events"

    def workers(self) -> list[str]:
        """Addresses of the live workers, by the master."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=5) as answer:
            answered = json.load(answer)["workers"]
        return sorted(worker["host"] for worker in answered if worker["state"] == "ALIVE")

    def start_worker(self, address: str, cores: int) -> None:
        """Starts a worker and waits for its registration at the master."""
        work = self.directory / "work" / address
        options = ["--host", address, "--cores", str(cores), "--memory", "2g", "--work-dir", str(work)]
        self._spawn(address, "worker.Worker", *options, "--webui-port", "0", self.master)
        assert wait_until(lambda: address in self.workers(), START_SECONDS), "the worker did not register"

    def kill_worker(self, address: str) -> None:
        """Kills a worker and its executors at once."""
        process = self.processes.pop(address)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def tasks(self) -> Counter[str]:
        """Number of successful tasks per worker, from the event logs of all applications so far."""
        done: Counter[str] = Counter()
        for log in self.events.iterdir():
            for line in log.read_text(encoding="utf-8").splitlines():
                # The last line of a killed driver may be incomplete.
                with suppress(ValueError):
                    event = json.loads(line)
                    if (
                        event["Event"] == "SparkListenerTaskEnd"
                        and event["Task End Reason"]["Reason"] == "Success"
                    ):
                        done[event["Task Info"]["Host"]] += 1
        return done

    def spark_options(self) -> str:
        """Options of the driver: an address that workers reach, and an event log."""
        options = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "1g",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        return " ".join(f"{name}={shlex.quote(value)}" for name, value in options.items())

    def executor_python(self) -> Path:
        """A Python like that of an executor: with all dependencies of Tidemark, and without Tidemark."""
        place = self.directory / "python"
        venv.create(place, symlinks=True)
        packages = sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)})
        # Python searches these directories, but ignores .pth files in them, such as an editable install's.
        (Path(packages) / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        return place / "bin" / "python"

    def _spawn(self, address: str, name: str, *arguments: str) -> None:
        command = [
            str(require_java()),
            "-Xmx256m",
            "-cp",
            f"{SPARK}/jars/*",
            f"org.apache.spark.deploy.{name}",
        ]
        with (self.directory / f"{address}.log").open("ab") as log:
            self.processes[address] = subprocess.Popen(
                [*command, *arguments],
                env={
                    **{name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")},
                    "SPARK_HOME": str(SPARK),
                    "SPARK_LOCAL_IP": address,
                    "SPARK_SCALA_VERSION": "2.13",
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


@contextmanager
def standalone(
    directory: Path, addresses: Sequence[str] = ("127.0.0.2", "127.0.0.3"), cores: int = 1
) -> Iterator[Standalone]:
    """Runs a cluster while the context is open, and ends all its processes afterwards."""
    if not sys.platform.startswith("linux"):
        raise RuntimeError("only Linux has more addresses on its loopback than one")
    cluster = Standalone(directory)
    cluster.events.mkdir(parents=True)
    try:
        where = ["--host", "127.0.0.1", "--port", str(cluster.port), "--webui-port", str(cluster.page)]
        cluster._spawn("127.0.0.1", "master.Master", *where)
        assert wait_until(lambda: _answers(cluster), START_SECONDS), "the master did not come up"
        for address in addresses:
            cluster.start_worker(address, cores)
        yield cluster
    finally:
        for process in cluster.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(cluster: Standalone) -> bool:
    try:
        return cluster.workers() is not None
    except (OSError, ValueError):  # it listens before it serves JSON
        return False
