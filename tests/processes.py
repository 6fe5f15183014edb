"""Processes that others have started."""

from __future__ import annotations

from contextlib import suppress

import psutil


def in_background(task: str, parent: int | None = None) -> list[psutil.Process]:
    """The processes for a task that a process (default: this one) and its children have started."""
    result = []
    for each in psutil.Process(parent).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "tidemark.operate.background" in each.cmdline() and task in each.cmdline():
                result.append(each)
    return result
