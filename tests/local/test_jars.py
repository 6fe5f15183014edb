from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tidemark.errors import PlatformError
from tidemark.local import jars
from tidemark.local.process import wait_until
from tidemark.settings import Settings

TINY_IVY = """<ivy-module version="2.0"><info organisation="t" module="t"/>
<configurations>
<conf name="spark" transitive="false"/><conf name="broker" transitive="false"/>
</configurations>
<dependencies>
<dependency org="org.example" name="one" rev="1" conf="spark->default"/>
<dependency org="org.example" name="two" rev="2" conf="broker->default"/>
</dependencies></ivy-module>"""


@pytest.fixture
def offline(home: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home whose JVM libraries are two tiny files of a repository in a directory, not of the network."""
    repository = tmp_path / "repository"
    for name, revision in (("one", "1"), ("two", "2")):
        jar = repository / name / f"{name}-{revision}.jar"
        jar.parent.mkdir(parents=True)
        jar.write_bytes(b"PK" + name.encode())
    ivy, ivy_settings = tmp_path / "ivy.xml", tmp_path / "ivysettings.xml"
    ivy.write_text(TINY_IVY, encoding="utf-8")
    ivy_settings.write_text(
        f"""<ivysettings><settings defaultResolver="here"/><resolvers><filesystem name="here">
        <artifact pattern="{repository}/[module]/[artifact]-[revision].[ext]"/>
        </filesystem></resolvers></ivysettings>""",
        encoding="utf-8",
    )
    monkeypatch.setattr(jars, "IVY_FILE", ivy)
    return home.changed(jvm_cache=str(tmp_path / "cache"), ivy_settings=str(ivy_settings))


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def test_the_jars_are_those_that_ivy_xml_lists(home: Settings) -> None:
    spark, broker = names(jars.spark_jars(home.java)), names(jars.broker_jars(home.java))
    assert len(spark) + len(broker) == jars.IVY_FILE.read_text(encoding="utf-8").count("<dependency ")
    assert {"delta-spark_4.2_2.13-4.4.0.jar", "spark-sql-kafka-0-10_2.13-4.2.0.jar"} <= set(spark)
    assert "kafka_2.13-4.2.1.jar" in broker


def test_the_client_of_s3_is_of_the_release_of_hadoop_that_pyspark_has() -> None:
    hadoop = jars.pyspark_jar("hadoop-client-api").stem.removeprefix("hadoop-client-api-")
    assert f'name="hadoop-aws" rev="{hadoop}"' in jars.S3_IVY_FILE.read_text(encoding="utf-8")


def test_jars_are_resolved_once_into_the_cache(offline: Settings, tmp_path: Path) -> None:
    assert names(jars.spark_jars(offline.java)) == ["one-1.jar"]
    assert names(jars.broker_jars(offline.java)) == ["two-2.jar"]
    (tmp_path / "repository").rename(tmp_path / "gone")
    assert names(jars.spark_jars(offline.java)) == ["one-1.jar"]


def test_a_change_of_ivy_xml_is_another_cache(offline: Settings) -> None:
    before = jars.cache_directory(offline.java)
    jars.IVY_FILE.write_text(TINY_IVY.replace('rev="2"', 'rev="3"'), encoding="utf-8")
    assert jars.cache_directory(offline.java) != before


def test_a_library_that_cannot_be_had_is_one_clear_error_and_leaves_nothing(
    offline: Settings, tmp_path: Path
) -> None:
    (tmp_path / "repository" / "two" / "two-2.jar").unlink()
    with pytest.raises(PlatformError, match=r"\(\d of 2 came\).*Check the network") as caught:
        jars.broker_jars(offline.java)
    assert "\n" not in str(caught.value)
    assert [p.suffix for p in (tmp_path / "cache").iterdir()] == [".lock"]


def test_concurrent_callers_resolve_once(offline: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    result: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: result.append(names(jars.spark_jars(offline.java)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert result == [["one-1.jar"]] * 4
    assert capfd.readouterr().err.count("Fetching") == 1


def test_a_resolve_that_is_killed_leaves_no_half_made_cache(offline: Settings, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from tidemark.local import jars\n"
        "from tidemark.settings.sections import JavaSettings\n"
        f"jars.IVY_FILE = Path({str(jars.IVY_FILE)!r})\n"
        f"jars.spark_jars(JavaSettings({offline.java.cache!r}, {offline.java.ivy_settings!r}))\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    cache = tmp_path / "cache"
    assert wait_until(lambda: any(cache.glob("*.part-*")), timeout=60, interval=0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert not jars.cache_directory(offline.java).exists()

    assert names(jars.spark_jars(offline.java)) == ["one-1.jar"]
    assert not list(cache.glob("*.part-*"))


def test_a_cache_that_cannot_be_written(offline: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    blocked = offline.changed(jvm_cache=str(tmp_path / "file" / "cache"))
    with pytest.raises(PlatformError, match="Set TIDEMARK_JVM_CACHE"):
        jars.spark_jars(blocked.java)
