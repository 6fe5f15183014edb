"""Defaults that fit the machine: the driver's heap and the parts that rows are shuffled in."""

from __future__ import annotations

import os
import re

from tidemark.errors import SettingError
from tidemark.settings import Settings

LEAST_HEAP_MEBIBYTES = 512
MOST_HEAP_MEBIBYTES = 2048


def heap_mebibytes(settings: Settings) -> int:
    """The driver's heap: as set, or a third of the machine's memory within bounds. Raises SettingError."""
    if not settings.driver_memory:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
        return max(LEAST_HEAP_MEBIBYTES, min(MOST_HEAP_MEBIBYTES, machine // 3))
    size = re.fullmatch(r"([1-9]\d*)([mg])b?", settings.driver_memory.strip().lower())
    if size is None:
        raise SettingError(
            f"driver_memory must be a size such as 2g or 1500m, not {settings.driver_memory!r}", "Correct it."
        )
    return int(size[1]) << (10 if size[2] == "g" else 0)


def shuffle_partitions(settings: Settings) -> int:
    """As set, or one per core within bounds; on a cluster, whose cores the driver does not know, 8."""
    here = max(2, min(4, os.cpu_count() or 2)) if settings.is_local else 8
    return settings.shuffle_partitions or here
