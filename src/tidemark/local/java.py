"""Finds the Java that Spark and the broker run on."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from tidemark.errors import PlatformError

SUPPORTED = (17, 21)
_REMEDY = "Install Java 17 or 21 and put it on the PATH, or set JAVA_HOME to its directory."


def require_java() -> Path:
    """The java executable of JAVA_HOME, or else of the PATH.

    Raises PlatformError if there is none, or if it is neither Java 17 nor 21. A wrong JAVA_HOME is an
    error even with a good java on the PATH, because Spark's launcher also uses JAVA_HOME.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise PlatformError(f"JAVA_HOME is {home}, which has no bin/java", _REMEDY)
    else:
        found = shutil.which("java")
        if found is None:
            raise PlatformError("Java was not found", _REMEDY)
        java = Path(found)
    major, version = _version(java)
    if major not in SUPPORTED:
        raise PlatformError(f"{java} is Java {version}, which Spark does not run on", _REMEDY)
    return java


@functools.cache
def _version(java: Path) -> tuple[int, str]:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlatformError(f"{java} does not run: {error}", _REMEDY) from error
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', done.stderr + done.stdout)
    # The java of macOS is a stub that only explains how to get one.
    if done.returncode != 0 or match is None:
        raise PlatformError(f"{java} is not a working Java", _REMEDY)
    return int(match[2]), match[1]
