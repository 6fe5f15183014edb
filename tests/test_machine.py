from __future__ import annotations

import os
from pathlib import Path

from tidemark.machine import memory_mebibytes


def test_a_containers_limit_of_memory_counts_where_it_is_the_least(tmp_path: Path) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = tmp_path / "memory.max"
    missing = tmp_path / "memory.limit_in_bytes"
    for text, expected in (
        (f"{300 << 20}\n", 300),
        ("max\n", machine >> 20),
        (f"{1 << 63}\n", machine >> 20),  # how cgroup v1 says that there is none
        ("", machine >> 20),
    ):
        limit.write_text(text)
        assert memory_mebibytes((missing, limit)) == expected
