"""Archives of Spark's and Kafka's parsed and verified classes: a JVM that maps its archive starts faster.

`tidemark prepare` creates them once per Java, version of the JVM libraries, and installation of Spark. From Java 25 on
they also hold profiles of methods, so that compilation begins at once (ahead-of-time cache, JEP 514 and 515); before,
classes only (Class Data Sharing, JEP 350). The JVM ignores a missing or incompatible archive.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from tidemark.local.jars import cache_directory
from tidemark.local.java import java_release, require_java
from tidemark.settings.sections import JavaSettings

DRIVER, BROKER = "classes", "broker-classes"

# An incompatible archive is harmless, so the JVM need not report it.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_QUIET_25 = f"{_QUIET} -Xlog:aot=off"
_OWN = ("SharedArchiveFile", "ArchiveClassesAtExit", "AOTCache", "AOTMode")


def archive(settings: JavaSettings, part: str = DRIVER) -> Path:
    """Path of the driver's or the broker's archive for this Java and these libraries, existing or not."""
    return _path(settings, part, _jars() if part == DRIVER else "")


def use(settings: JavaSettings, own: str, part: str = DRIVER) -> str:
    """JVM options that map the archive if it exists, unless the JVM's own options name one or let it write one."""
    path = archive(settings, part)
    if any(option in own for option in _OWN) or not path.exists():
        return ""
    if _with_profiles():
        return f'-XX:AOTCache="{path}" {_QUIET_25}'
    base = _base(settings)
    return f'-XX:SharedArchiveFile="{f"{base}:" if base else ""}{path}" {_QUIET}'


def make(path: Path, settings: JavaSettings) -> str:
    """JVM options that write an archive to `path` when the JVM ends."""
    if _with_profiles():
        return f'-XX:AOTCacheOutput="{path}" {_QUIET_25}'
    base = _base(settings)
    if base and not base.exists():
        command = [str(require_java()), "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    under = f'-XX:SharedArchiveFile="{base}" ' if base else ""
    return f'{under}-XX:ArchiveClassesAtExit="{path}" {_QUIET}'


def keep(written: Path, settings: JavaSettings, part: str = DRIVER) -> bool:
    """Moves a JVM's new archive to its path; false if there is none. Removes driver archives that no JVM can use any
    more: of a Java or a Spark that is gone, and earlier ones of these."""
    if not written.exists() or written.stat().st_size == 0:
        return False
    kept = archive(settings, part)
    written.replace(kept)
    if part == DRIVER:
        owners = f"{require_java().resolve()}\n{_spark_home()}"
        kept.with_suffix(".of").write_text(owners)
        for other in kept.parent.glob(f"{DRIVER}-*.jsa"):
            note = other.with_suffix(".of")
            of = note.read_text() if note.exists() else ""
            if other != kept and (of in ("", owners) or not all(map(os.path.exists, of.splitlines()))):
                other.unlink(missing_ok=True)
                note.unlink(missing_ok=True)
    return True


def _with_profiles() -> bool:
    return java_release() >= 25


def _base(settings: JavaSettings) -> Path | None:
    """Path of the archive of Java's own classes, on which the others build; None if this Java contains one. Small
    Java runtimes do not."""
    server = require_java().resolve().parent.parent / "lib" / "server"
    return None if (server / "classes.jsa").exists() else _path(settings, "java-classes")


def _path(settings: JavaSettings, part: str, version: str = "") -> Path:
    java = require_java().resolve()
    modules = java.parent.parent / "lib" / "modules"
    age = modules.stat().st_mtime_ns if modules.exists() else java.stat().st_mtime_ns
    identity = f"{java} {age} {version}"
    return cache_directory(settings) / f"{part}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def _spark_home() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def _jars() -> str:
    """The facts that a JVM compares with the archive: path, order, size and time of Spark's jars."""
    jars = _spark_home() / "jars"
    if not jars.is_dir():
        return str(jars)
    files = ((entry.name, entry.stat()) for entry in os.scandir(jars))
    return f"{jars} {[(name, status.st_size, status.st_mtime_ns) for name, status in files]}"
