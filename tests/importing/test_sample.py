"""The formats that an import prints: of all lines of small imports, of a sample of large ones."""

from __future__ import annotations

import pytest

from tidemark.cli.importing import _formats
from tidemark.importing import sample as sampling
from tidemark.importing.lines import Block
from tidemark.importing.sample import Sample
from tidemark.settings import Settings

COMBINED = b'203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8.5.0"'
W3C = b"2026-11-21 10:00:00 203.0.113.7 GET / 200"
HEADER = "date time c-ip cs-method cs-uri-stem sc-status"


def printed(*blocks: Block, named: str | None = None) -> str:
    sample = Sample()
    for block in blocks:
        sample.look(block)
    return "\n".join(_formats(sample, named, "default", Settings(), infer=False))


def test_every_line_of_a_small_import_is_counted() -> None:
    mixed = Block(lines=[COMBINED] * 3 + [COMBINED + b" 0.012", b"nonsense"])
    assert printed(mixed, Block(lines=[W3C] * 2, fields=HEADER), Block(lines=[W3C])) == (
        "formats: combined 4, w3c_extended 2, 2 of no format; `tidemark explain` shows where they differ"
    )
    assert printed(Block(lines=[COMBINED])) == "formats: combined 1"
    assert printed(Block(lines=[COMBINED]), named="icecast").startswith("formats: 1 of no format; ")


def test_of_a_large_import_a_sample_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FIRST_LINES": 10, "ONE_OF": 5, "MOST_LINES": 20}.items():
        monkeypatch.setattr(sampling, name, value)
    blocks = [Block(lines=[COMBINED] * 6) for _ in range(4)]
    assert printed(*blocks) == "formats in a sample of 15 lines: combined 15"
    assert printed(*blocks, Block(lines=[COMBINED] * 1_000)) == "formats in a sample of 20 lines: combined 20"
