"""What Spark needs for tables on S3: Hadoop's client, and a log store that lets one of several writers win."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tidemark.errors import PlatformError
from tidemark.local.jars import pyspark_jar, resolved, spark_jars
from tidemark.local.java import require_java
from tidemark.settings import Settings

S3_IVY_FILE = Path(__file__).with_name("s3.xml")
LOG_STORE_SOURCE = Path(__file__).with_name("S3LogStore.java")
LOG_STORE = "tidemark.S3LogStore"
# Janino's stand-in for javac, which a machine that only runs Java lacks.
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"


def s3_jars(settings: Settings) -> list[Path]:
    """The jars for paths of s3a, and that of the class `LOG_STORE`; made on first use. Raises as `spark_jars`."""
    ready = resolved(settings, S3_IVY_FILE)
    return [*sorted((ready / "s3").glob("*.jar")), _log_store(ready, settings)]


def _log_store(ready: Path, settings: Settings) -> Path:
    version = hashlib.sha256(LOG_STORE_SOURCE.read_bytes()).hexdigest()[:16]
    jar = ready / f"log-store-{version}.jar"
    if jar.exists():
        return jar
    needs = [*spark_jars(settings), pyspark_jar("hadoop-client-api")]
    compiler = [pyspark_jar("janino"), pyspark_jar("commons-compiler")]
    with tempfile.TemporaryDirectory(prefix="log-store-", dir=ready) as work:
        classes = Path(work) / "classes"
        classes.mkdir()
        done = subprocess.run(
            [str(require_java()), "-cp", os.pathsep.join(map(str, compiler)), _COMPILER,
             "-d", str(classes), "-classpath", os.pathsep.join(map(str, needs)), str(LOG_STORE_SOURCE)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not (classes / f"{LOG_STORE.replace('.', '/')}.class").exists():
            raise PlatformError(
                f"the log store for S3 does not compile: {(done.stderr or done.stdout).strip()}", "Report it."
            )
        Path(shutil.make_archive(str(Path(work) / "made"), "zip", classes)).replace(jar)
    return jar
