"""A JVM's archive of Spark's classes, as parsed and verified: a driver that maps it starts seconds sooner.

Made once per Java and version of the JVM libraries (Class Data Sharing, JEP 350), by `tidemark prepare`. The
JVM goes without where it is missing or does not fit.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.version import __version__ as pyspark_version

from tidemark.local.jars import cache_directory
from tidemark.local.java import require_java
from tidemark.settings import Settings

# What does not fit is no trouble: nobody needs to hear of it.
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def archive(settings: Settings) -> Path:
    """Where the archive for this Java and these libraries is, or will be."""
    java = require_java().resolve()
    modules = java.parent.parent / "lib" / "modules"
    age = modules.stat().st_mtime_ns if modules.exists() else java.stat().st_mtime_ns
    made_for = f"{java} {age} {pyspark_version}"
    return cache_directory(settings) / f"classes-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.jsa"


def use(settings: Settings) -> str:
    """JVM options that map the archive, if it is there."""
    path = archive(settings)
    return f'-XX:SharedArchiveFile="{path}" {QUIET}' if path.exists() else ""


def make(path: Path) -> str:
    """JVM options that write an archive to `path` when the JVM ends."""
    return f'-XX:ArchiveClassesAtExit="{path}" {QUIET}'


def end(session: SparkSession, seconds: float = 120) -> None:
    """Stops the session and its JVM, and waits until that has ended.

    Raises subprocess.TimeoutExpired.
    """
    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()
        process.wait(seconds)
        SparkContext._gateway = SparkContext._jvm = None


def keep(made: Path, settings: Settings) -> bool:
    """Puts an archive that a JVM has written in its place; false if there is none."""
    if not made.exists() or made.stat().st_size == 0:
        return False
    made.replace(archive(settings))
    return True
