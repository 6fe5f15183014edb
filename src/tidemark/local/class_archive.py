"""Archives of the classes of Spark and of Kafka, as parsed and verified: a JVM that maps its archive starts sooner.

Made once per Java and version of the JVM libraries (Class Data Sharing, JEP 350), by `tidemark prepare`. The
JVM goes without where it is missing or does not fit.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tidemark.local.jars import cache_directory
from tidemark.local.java import require_java
from tidemark.settings import Settings

DRIVER, BROKER = "classes", "broker-classes"

# What does not fit is no trouble: nobody needs to hear of it.
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def archive(settings: Settings, part: str = DRIVER) -> Path:
    """Where the archive of the driver or of the broker for this Java and these libraries is, or will be."""
    java = require_java().resolve()
    modules = java.parent.parent / "lib" / "modules"
    age = modules.stat().st_mtime_ns if modules.exists() else java.stat().st_mtime_ns
    made_for = f"{java} {age} {_pyspark() if part == DRIVER else ''}"
    return cache_directory(settings) / f"{part}-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.jsa"


def use(settings: Settings, part: str = DRIVER) -> str:
    """JVM options that map the archive, if it is there, unless the settings say which one, or that this JVM is
    to make it."""
    own = settings.driver_java_options if part == DRIVER else settings.broker_java_options
    path = archive(settings, part)
    if "SharedArchiveFile" in own or "ArchiveClassesAtExit" in own or not path.exists():
        return ""
    return f'-XX:SharedArchiveFile="{path}" {QUIET}'


def make(path: Path) -> str:
    """JVM options that write an archive to `path` when the JVM ends."""
    return f'-XX:ArchiveClassesAtExit="{path}" {QUIET}'


def keep(made: Path, settings: Settings, part: str = DRIVER) -> bool:
    """Puts an archive that a JVM has written in its place; false if there is none."""
    if not made.exists() or made.stat().st_size == 0:
        return False
    made.replace(archive(settings, part))
    return True


def _pyspark() -> str:
    from pyspark.version import __version__

    return __version__
