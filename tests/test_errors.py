"""What the machine lacks, told from the errors of libraries."""

from __future__ import annotations

import pytest

from tidemark.errors import PlatformError, shortage

WITHOUT_MEMORY = [
    OSError(12, "Cannot allocate memory"),
    MemoryError("std::bad_alloc"),
    RuntimeError("Out of memory: malloc of size 4194304 failed"),
    ImportError("libarrow.so: failed to map segment from shared object"),
    # zstd within delta-rs, seen by the random actions under a limit of 140 MiB.
    RuntimeError(
        'Generic error: task 155 panicked with message "zstd returned null pointer when creating new context"'
    ),
    RuntimeError("Allocation error : not enough memory"),
]


@pytest.mark.parametrize("error", WITHOUT_MEMORY, ids=str)
def test_too_little_memory_is_named_and_no_table_is_blamed(error: Exception) -> None:
    lack = shortage(error, "table bronze.access_log cannot be maintained")
    assert isinstance(lack, PlatformError)
    assert str(lack).startswith(
        "too little memory: table bronze.access_log cannot be maintained. Free memory"
    )


@pytest.mark.parametrize("text", ["Generic error: no protocol found in log", "Parquet file is truncated"])
def test_other_errors_are_no_lack_of_the_machine(text: str) -> None:
    assert shortage(RuntimeError(text), "table bronze.access_log cannot be maintained") is None
