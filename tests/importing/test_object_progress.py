"""The progress of objects, of which little is in memory."""

from __future__ import annotations

from tidemark.importing.identity import Entry
from tidemark.importing.object_progress import DiskEntries


def entry(number: int, etag: str = "") -> Entry:
    return Entry(
        str(number), "shop", f"s3://logs/{number}ü", 10, 1, 10, "a", "b", 0, unended=False, etag=etag
    )


def test_entries_on_disk_and_those_that_are_not_there_yet() -> None:
    entries = DiskEntries()
    for number in range(2500):
        entries[str(number)] = entry(number)
    entries["7"] = entry(7, "newer")
    del entries["8"], entries["2400"]

    assert len(entries) == 2498 and "8" not in entries and "2400" not in entries
    assert entries["7"] == entry(7, "newer")
    assert entries["2499"] == entry(2499)
    assert entries.pop("0") == entry(0) and entries.get("0") is None
    assert {*entries} == {str(number) for number in range(1, 2500)} - {"8", "2400"}
