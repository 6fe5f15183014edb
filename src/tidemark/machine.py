"""Defaults that suit the machine: the driver's heap, shuffle partitions, threads."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tidemark.errors import SettingError
from tidemark.settings.sections import SparkSettings

LEAST_HEAP_MEBIBYTES = 512
MOST_HEAP_MEBIBYTES = 2048

# Files with a container's memory limit, of cgroup v2 and v1. "max", or more than the machine has, means no limit.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


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


def memory_mebibytes(limits: tuple[Path, ...] = _LIMITS) -> int:
    """The machine's memory, or the smallest limit in a file of `limits`."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in limits:
        try:
            memory = min(memory, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return memory >> 20


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
