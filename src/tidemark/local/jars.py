"""Fetches the JVM libraries of an Ivy file, once, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tqdm import tqdm

from tidemark.errors import PlatformError, unwritable
from tidemark.figures.declared import expanded
from tidemark.local.java import require_java
from tidemark.local.locks import locked
from tidemark.settings.sections import JavaSettings

IVY_FILE = Path(__file__).with_name("ivy.xml")
S3_IVY_FILE = Path(__file__).with_name("s3.xml")
IVY_SETTINGS = Path(__file__).with_name("ivysettings.xml")


def spark_jars(settings: JavaSettings, *, s3: bool = False) -> list[Path]:
    """The jars that PySpark lacks for Delta tables and Kafka, and with `s3` for tables on S3; resolves them on first
    use.

    Raises PlatformError if they cannot be fetched, or the cache cannot be written.
    """
    kinds = {"spark": IVY_FILE, **({"s3": S3_IVY_FILE} if s3 else {})}
    return [
        jar for kind, file in kinds.items() for jar in sorted((resolved(settings, file) / kind).glob("*.jar"))
    ]


def broker_jars(settings: JavaSettings) -> list[Path]:
    """The class path of the embedded Kafka broker; resolves it on first use. Raises as `spark_jars`."""
    return sorted((resolved(settings, IVY_FILE) / "broker").glob("*.jar"))


def cache_directory(settings: JavaSettings, ivy_file: Path | None = None) -> Path:
    """Directory of the jars of this version of an Ivy file (default ivy.xml), resolved or not."""
    root = expanded(settings.cache) if settings.cache else user_cache()
    return root / f"jvm-{hashlib.sha256((ivy_file or IVY_FILE).read_bytes()).hexdigest()[:16]}"


def user_cache() -> Path:
    """Tidemark's directory in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemark"


def resolved(settings: JavaSettings, ivy_file: Path) -> Path:
    """The directory with the jars of an Ivy file, by configuration; resolves them on first use. Raises as
    `spark_jars`."""
    ready = cache_directory(settings, ivy_file)
    if ready.is_dir():
        return ready
    try:
        ready.parent.mkdir(parents=True, exist_ok=True)
        with locked(ready.with_suffix(".lock")):
            # Another process may have resolved them during the wait for the lock.
            if not ready.is_dir():
                _build(ready, settings, ivy_file)
    except OSError as error:
        raise unwritable(
            f"cannot write the cache of JVM libraries {ready.parent}",
            error,
            "Set TIDEMARK_JVM_CACHE to a directory that can be written.",
        ) from error
    return ready


def _build(ready: Path, settings: JavaSettings, ivy_file: Path) -> None:
    """Resolves into a temporary directory and renames it, so that a cache is either complete or absent."""
    unfinished = f"{ready.name}.part-"
    # Under the lock, leftovers of an interrupted resolve belong to no process.
    for left in ready.parent.glob(f"{unfinished}*"):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=unfinished, dir=ready.parent))
    try:
        _run_ivy(work, settings, ivy_file)
        (work / "jars").rename(ready)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_ivy(work: Path, settings: JavaSettings, ivy_file: Path) -> None:
    listed = ivy_file.read_text(encoding="utf-8")
    total = listed.count("<dependency ")
    command = [
        str(require_java()), "-jar", str(pyspark_jar("ivy")),
        "-settings", settings.ivy_settings or str(IVY_SETTINGS),
        "-ivy", str(ivy_file), "-cache", str(work / "ivy"), "-confs", *re.findall(r'<conf name="(\w+)"', listed),
        "-retrieve", f"{work}/jars/[conf]/[artifact]-[revision].[ext]", "-types", "jar", "bundle",
    ]  # fmt: skip
    output: list[str] = []
    tqdm.write(f"Fetching {total} JVM libraries, once.", file=sys.stderr)
    with (
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as ivy,
        tqdm(total=total, unit="jar", disable=not sys.stderr.isatty(), leave=False) as progress,
    ):
        assert ivy.stdout is not None
        for line in ivy.stdout:
            output.append(line.strip())
            progress.update("[SUCCESSFUL ]" in line)
    got = len(list((work / "jars").glob("*/*.jar")))
    if ivy.returncode != 0 or got != total:
        raise PlatformError(
            f"cannot fetch the JVM libraries ({got} of {total} came): {_reason(output)}",
            "Check the network or the proxy (JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=...), or set"
            " TIDEMARK_IVY_SETTINGS to an Ivy settings file with your Maven mirror; then try again.",
        )


def pyspark_jar(name: str) -> Path:
    """A jar of PySpark, by its name without a version. Raises PlatformError if it is missing."""
    spec = find_spec("pyspark")
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        for jar in Path(place).glob(f"jars/{name}-[0-9]*.jar"):
            return jar
    raise PlatformError(f"PySpark's {name} was not found", "Reinstall tidemark, which brings pyspark.")


def _reason(output: list[str]) -> str:
    """The most useful line of a failed resolve's output."""
    for sign in (r"Exception: ", r"Server access error|SERVER ERROR", r"not found", r"[Ee]rror|rror:"):
        for line in output:
            if re.search(sign, line):
                return line.strip(": \t")
    return output[-1] if output else "Ivy printed nothing"
