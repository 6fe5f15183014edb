"""Identifies files by content: a renamed, rotated, compressed or grown file is recognised."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal

from tidemark.importing.comments import Comments
from tidemark.importing.compression import DamagedError, TruncatedError
from tidemark.importing.lines import TAIL_BYTES, LineSplitter
from tidemark.importing.reader import Reader
from tidemark.importing.sources import Spooled, open_reader
from tidemark.importing.text import PLAIN, Head, Text


@dataclass(frozen=True)
class Entry:
    """How far one file of one site has been imported; all counts are of the decompressed bytes, in their encoding.

    prefix_sha256 is over the first `prefix_length` bytes behind `start`, at most 64 KiB, tail_sha256 over the
    last min(offset, 4 KiB) before `offset`. `start`, `chunk` and `unended` are those of LineSplitter; entries of
    earlier versions have a start of 0 even if the file begins with NUL bytes. `encoding` and `line_end` are those
    of Text, `fields` and `comments` those of Comments at `offset`. A stream has no identity: its prefix_length is 0.
    `etag` is the version of an object of which this entry has all lines.
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
    start: int = 0
    encoding: str = PLAIN.encoding
    line_end: str = PLAIN.line_end
    etag: str = ""

    def to_json(self) -> bytes:
        return json.dumps(vars(self), separators=(",", ":")).encode()

    @staticmethod
    def from_json(raw: bytes) -> Entry:
        values = json.loads(raw)
        # Entries of earlier versions lack fields that have a default, those of later ones may have more.
        return Entry(**{name: values[name] for name in _FIELDS if name in values})


_FIELDS = tuple(each.name for each in fields(Entry))


@dataclass(frozen=True)
class Match:
    """`new`; `same`: `entry` has its progress; `shorter`: all of it is imported, as part of a longer file."""

    kind: Literal["new", "same", "shorter"]
    entry: Entry | None = None


def recognise(source: str | Spooled, entries: Iterable[Entry]) -> Match:
    """Finds the file `source` among `entries` (those of its site).

    An entry matches when the file begins with its prefix and has its tail before its offset. The
    longest prefix wins, then the greatest offset. Of a broken compressed file, the readable part is compared.
    Raises InputError.
    """
    head = read_head(source)
    digests: dict[tuple[int, int], str] = {}
    candidates = []
    for entry in entries:
        if not (entry.lines or entry.chunk):
            continue  # It has no more than a mark, which may be the beginning of another encoding's.
        start, length = entry.start, entry.prefix_length
        begin = _begin(head, entry)
        if not 0 < length <= len(begin):
            continue
        if (start, length) not in digests:
            digests[start, length] = digest(begin[:length])
        if digests[start, length] == entry.prefix_sha256:
            candidates.append(entry)
    shorter: Entry | None = None
    for entry in sorted(candidates, key=lambda e: (e.prefix_length, e.offset), reverse=True):
        with open_reader(source) as reader:
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


def _begin(head: Head, entry: Entry) -> bytes:
    """The bytes of which an entry has the prefix; empty if the entry is of another file."""
    if not entry.start:
        return head.whole
    return head.data if entry.start == head.nuls else b""


def read_head(source: str | Spooled) -> Head:
    """The beginning of a file's content. Raises InputError, also for a file that is no text."""
    with open_reader(source) as reader:
        return reader.head()


def resume(reader: Reader, entry: Entry | None) -> tuple[LineSplitter, Comments]:
    """Moves a new reader to the position of `entry` (None: the beginning). Returns what splits the bytes from
    there on into lines, and the comments among the lines before."""
    if entry is None:
        return LineSplitter(text=reader.head().text), Comments()
    splitter = LineSplitter(text=Text(entry.encoding, entry.line_end))
    prefix = _begin(reader.head(), entry)[: entry.prefix_length]
    tail = reader.skip(entry.offset, TAIL_BYTES)
    splitter.offset, splitter.lines, splitter.start = entry.offset, entry.lines, entry.start
    splitter.chunk, splitter.unended = entry.chunk, entry.unended
    splitter.prefix, splitter.tail = prefix, tail or b""
    return splitter, Comments(entry.fields, entry.comments)


def has_grown_last_line(path: str, entry: Entry) -> bool:
    """Whether a file at `path`, which `entry` recognises, goes on with the last line, which was imported as it was."""
    if not entry.unended:
        return False
    with open_reader(path) as reader:
        splitter, _ = resume(reader, entry)
        rest = reader.read(2 * splitter.text.unit)
        return bool(rest.strip(b"\0")) and not rest.startswith(splitter.ends)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
