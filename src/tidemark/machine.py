"""Defaults that suit the machine: the driver's heap, shuffle partitions, threads; and the least that it must give."""

from __future__ import annotations

import os
import re
import resource
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tidemark.errors import MORE_THREADS, PlatformError, SettingError
from tidemark.settings.sections import SparkSettings

LEAST_HEAP_MEBIBYTES = 512
MOST_HEAP_MEBIBYTES = 2048

# Address space that libraries and their threads reserve, most of which never becomes memory. With less they abort, or
# wait forever for a thread: a look at a log needs 2.9 GB of it on two cores, and the threads of a core half a GB.
_SPACE_MEBIBYTES, _SPACE_MEBIBYTES_OF_CORE = 2048, 512
# Threads of a look at a log: fifty on two cores.
_THREADS, _THREADS_OF_CORE = 40, 12
# Memory of a look at a log: 600 MiB, of which a little may be in other processes' use, too.
_MEMORY_MEBIBYTES = 512

# The directory and the file of a control group's limit of memory, by the controllers that /proc/self/cgroup names: of
# cgroup v2 and v1. "max", or more than the machine has, means no limit.
_LIMITS = {
    "": (Path("/sys/fs/cgroup"), "memory.max"),
    "memory": (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
}
_GROUPS = Path("/proc/self/cgroup")


def heap_mebibytes(settings: SparkSettings) -> int:
    """The driver's heap: the setting, or a third of the memory within bounds. Raises SettingError."""
    if not settings.driver_memory:
        return max(LEAST_HEAP_MEBIBYTES, min(MOST_HEAP_MEBIBYTES, memory_mebibytes() // 3))
    size = re.fullmatch(r"([1-9]\d*)([mg])b?", settings.driver_memory.strip().lower())
    if size is None:
        raise SettingError(
            f"driver_memory must be a size such as 2g or 1500m, not {settings.driver_memory!r}", "Correct it."
        )
    return int(size[1]) << (10 if size[2] == "g" else 0)


def memory_mebibytes(limits: Iterable[Path] | None = None) -> int:
    """The machine's memory, or the smallest limit in a file of `limits`, by default those of the control groups that
    this process is in."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in _limits() if limits is None else limits:
        try:
            memory = min(memory, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return memory >> 20


def _limits() -> Iterator[Path]:
    groups = _GROUPS.read_text().splitlines() if _GROUPS.exists() else []
    for _, controllers, group in (line.split(":", 2) for line in groups):
        if controllers in _LIMITS:
            directory, name = _LIMITS[controllers]
            # A container may see its own group as the root, under the name that it has outside.
            below = Path(group.strip("/"))
            yield from (directory / each / name for each in (below, *below.parents))


def require_room() -> None:
    """Raises PlatformError if this process may not take the address space and the memory, or start the threads, that a
    command needs which opens tables. Without them, libraries abort, or wait forever for a thread."""
    cores = os.cpu_count() or 2
    most, least = (
        resource.getrlimit(resource.RLIMIT_AS)[0],
        _SPACE_MEBIBYTES + cores * _SPACE_MEBIBYTES_OF_CORE,
    )
    if most != resource.RLIM_INFINITY and most >> 20 < least:
        raise PlatformError(
            f"this process may reserve {most >> 20:,} MiB of address space (`ulimit -v`), and needs {least:,}, most of"
            " which never becomes memory",
            "Raise the limit: `ulimit -v unlimited`. To limit memory, use a control group (MemoryMax=).",
        )
    if (memory := memory_mebibytes()) < _MEMORY_MEBIBYTES:
        raise PlatformError(
            f"this process may have {memory:,} MiB of memory, and needs {_MEMORY_MEBIBYTES}",
            "Raise the limit of its container or control group (MemoryMax=).",
        )
    _require_threads(_THREADS + cores * _THREADS_OF_CORE)


def _require_threads(number: int) -> None:
    """Starts so many threads, and ends them: no file says how many more a process may start."""
    done = threading.Event()
    started: list[threading.Thread] = []
    try:
        while len(started) < number:
            thread = threading.Thread(target=done.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise PlatformError(
            f"this process may start {len(started)} threads, and needs {number}", f"{MORE_THREADS}."
        ) from error
    finally:
        done.set()
        for thread in started:
            thread.join()


def allow_open_files() -> None:
    """Raises the number of files that this process may have open to what the system lets it ask for. The usual limit is
    low because `select` cannot wait for more than 1,024, so call it only where nothing waits for a pipe."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def shuffle_partitions(settings: SparkSettings) -> int:
    """The setting, or one per core within bounds; 8 on a cluster, whose cores the driver does not know."""
    return settings.shuffle_partitions or (_few() if settings.is_local else 8)


def validation_threads() -> int:
    """One per core, at most four: half of their work holds Python's lock."""
    return _few()


def commit_threads() -> int:
    """One per core, at most six: more would delay the tables that people watch, which are first."""
    return _few(most=6)


def spare_threads() -> int:
    """Half of the cores: for work that may take longer, beside work that may not."""
    return max(1, (os.cpu_count() or 2) // 2)


def _few(most: int = 4) -> int:
    return max(2, min(most, os.cpu_count() or 2))
