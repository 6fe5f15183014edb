from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.errors import PlatformError
from tidemark.local.java import require_java


def fake_java(directory: Path, script: str) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def saying(version: str) -> str:
    return f"""echo 'openjdk version "{version}" 2025-01-01' >&2"""


def test_the_machine_has_a_java_that_spark_runs_on() -> None:
    assert require_java().name == "java"


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.2-ea"])
def test_java_17_and_21_are_accepted(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path, saying(version))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert require_java() == java


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "25.0.1"])
def test_another_java_is_refused_by_its_version(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, saying(version))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PlatformError, match=f"is Java {version}.*Install Java 17 or 21"):
        require_java()


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlatformError, match="Java was not found"):
        require_java()


def test_java_home_without_java_is_an_error_even_if_the_path_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PlatformError, match=r"JAVA_HOME is .* has no bin/java"):
        require_java()


def test_the_stub_of_macos_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "echo 'The operation could not be completed.' >&2; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PlatformError, match="is not a working Java"):
        require_java()
