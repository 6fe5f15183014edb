"""Identifies files by content: a renamed, rotated, compressed or grown file is recognised."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Literal

from tidemark.importing.comments import Comments
from tidemark.importing.lines import PREFIX_BYTES, TAIL_BYTES, LineSplitter
from tidemark.importing.reader import BrokenError, DamagedError, Reader, TruncatedError
from tidemark.importing.sources import open_reader


@dataclass(frozen=True)
class Entry:
    """How far one file of one site has been imported; all counts are of decompressed content.

    prefix_sha256 is over the first `prefix_length` = min(offset, 64 KiB) bytes, tail_sha256 over the
    last min(offset, 4 KiB) before `offset`. `chunk` and `unended` are those of LineSplitter.
    A stream has no identity: its prefix_length is 0. `fields` and `comments` are those of Comments, at `offset`.
    """

    id: str
    site: str
    path: str
    offset: int
    lines: int
    prefix_length: int
    prefix_sha256: str
    tail_sha256: str
    chunk: int
    unended: bool
    fields: str = ""
    comments: int = 0

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @staticmethod
    def from_json(raw: bytes) -> Entry:
        values = json.loads(raw)
        # Entries of earlier versions lack fields that have a default.
        return Entry(
            **{f.name: values[f.name] for f in fields(Entry) if f.name in values or f.default is MISSING}
        )


@dataclass(frozen=True)
class Match:
    """`new`; `same`: `entry` has its progress; `shorter`: all of it is imported, as part of a longer file."""

    kind: Literal["new", "same", "shorter"]
    entry: Entry | None = None


def recognise(path: str, entries: Iterable[Entry]) -> Match:
    """Finds the file at `path` among `entries` (those of its site).

    An entry matches when the file begins with its prefix and has its tail before its offset. The
    longest prefix wins, then the greatest offset. Of broken gzip, the readable part is compared.
    Raises InputError.
    """
    head = read_head(path)
    digests: dict[int, str] = {}
    candidates = []
    for entry in entries:
        length = entry.prefix_length
        if not 0 < length <= len(head):
            continue
        if length not in digests:
            digests[length] = digest(head[:length])
        if digests[length] == entry.prefix_sha256:
            candidates.append(entry)
    shorter: Entry | None = None
    for entry in sorted(candidates, key=lambda e: (e.prefix_length, e.offset), reverse=True):
        with open_reader(path) as reader:
            try:
                tail = reader.skip(entry.offset, TAIL_BYTES)
            except TruncatedError:
                tail = None
            except DamagedError:
                continue
        if tail is None:
            shorter = entry
        elif digest(tail) == entry.tail_sha256:
            return Match("same", entry)
    return Match("shorter", shorter) if shorter else Match("new")


def read_head(path: str) -> bytes:
    """The first 64 KiB of content; less if the content is shorter or gzip is broken before."""
    head = b""
    with open_reader(path) as reader:
        try:
            while len(head) < PREFIX_BYTES and (data := reader.read(PREFIX_BYTES - len(head))):
                head += data
        except BrokenError:
            pass  # The reader of the rest gets the error.
    return head


def first_line_of(path: str) -> bytes:
    """The first line, at most 64 KiB of it; empty for an empty file."""
    return read_head(path).split(b"\n", 1)[0].removesuffix(b"\r")


def resume(reader: Reader, entry: Entry) -> LineSplitter:
    """Moves a new reader and a splitter to the position of `entry`."""
    splitter = LineSplitter()
    prefix = read_head(reader.name)[: entry.prefix_length]
    tail = reader.skip(entry.offset, TAIL_BYTES)
    splitter.offset, splitter.lines = entry.offset, entry.lines
    splitter.chunk, splitter.unended = entry.chunk, entry.unended
    splitter.prefix, splitter.tail = prefix, tail or b""
    return splitter


def entry_of(
    splitter: LineSplitter, comments: Comments, *, id: str, site: str, path: str, stream: bool = False
) -> Entry:
    """The entry for all records that `splitter` has returned, and `comments` has passed on."""
    return Entry(
        id=id,
        site=site,
        path=path,
        offset=splitter.offset,
        lines=splitter.lines,
        prefix_length=0 if stream else len(splitter.prefix),
        prefix_sha256=digest(splitter.prefix),
        tail_sha256=digest(splitter.tail),
        chunk=splitter.chunk,
        unended=splitter.unended,
        fields=comments.fields,
        comments=comments.count,
    )


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
