"""The import of one file, batch by batch, and what an import has done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tidemark.errors import InputError, SettingError
from tidemark.importing.identity import Entry, digest, resume
from tidemark.importing.lines import Block
from tidemark.importing.raw import READ_BYTES
from tidemark.importing.reader import Reader
from tidemark.kafka.records import DEFAULT_SITE

BATCH_LINES = 100_000
BATCH_BYTES = 16 * 1024 * 1024
BATCH_SECONDS = 0.25  # For streams and followed files, which may pause.


@dataclass
class Report:
    """Result of an import: files read, lines added, lines known before, comments and NUL bytes left out, and unfinished
    last lines left. `stream`: the last input was a stream, which cannot be read again. `noun`: what a file is called.
    """

    files: int = 0
    added: int = 0
    known: int = 0
    comments: int = 0
    nuls: int = 0
    unfinished: int = 0
    stopped: bool = False
    stream: bool = False
    noun: str = "file"


@dataclass
class Batch:
    """Consecutive records of a file; `before` is the entry of those before them, None at the beginning."""

    before: Entry | None = None
    blocks: list[Block] = field(default_factory=list)
    records: int = 0
    size: int = 0

    def add(self, block: Block) -> None:
        self.blocks.append(block)
        self.records += len(block.lines) + len(block.parts)
        self.size += block.size


Send = Callable[[Batch, Entry], None]
Look = Callable[[Block], None]


class Joined:
    """Sends the batches of several files as one of at least `least` records, with the entry of the last file."""

    def __init__(self, send: Send, least: int) -> None:
        self._send = send
        self._least = least
        self._batch = Batch()
        self._entry: Entry | None = None

    def add(self, batch: Batch, entry: Entry) -> None:
        self._entry = entry
        for block in batch.blocks:
            self._batch.add(block)
        if self._batch.records >= self._least:
            self.flush()

    def flush(self) -> None:
        """Sends what waits."""
        batch, self._batch = self._batch, Batch()
        if self._entry and batch.size:
            self._send(batch, self._entry)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How files are read. `complete`: a last line without a line feed is complete. `again`: as if no line were known.

    `say` gets notices; `stopped` is called between blocks; `advance` gets the number of processed input bytes
    (compressed ones of a compressed file). `look` sees each block of lines. A batch has about `most_records`.
    """

    site: str = DEFAULT_SITE
    again: bool = False
    complete: bool = False
    say: Callable[[str], None] = print
    stopped: Callable[[], bool] = lambda: False
    advance: Callable[[int], None] = lambda _: None
    look: Look = lambda _: None
    most_records: int = BATCH_LINES

    def __post_init__(self) -> None:
        if not self.site or len(self.site) > 200 or not self.site.isprintable():
            raise SettingError(f"{self.site!r} is not a site name", "Use up to 200 printable characters.")


class FileImport:
    """The import of one file: what is read, batched and committed."""

    def __init__(
        self,
        reader: Reader,
        known: Entry | None,
        entry_id: str,
        send: Send,
        how: ReadOptions,
        *,
        stream: bool = False,
    ) -> None:
        """`known` is the entry of what was imported before."""
        self.reader = reader
        self.splitter, self.comments = resume(reader, known)
        self.entry_id = entry_id
        self.committed_lines = self._lines
        self._reported = self.comments.count, self.splitter.nuls
        self.path = reader.name
        self._send = send
        self._how = how
        self._stream = stream
        self._batch = Batch(known)
        self._since = time.monotonic()

    def read(self, size: int) -> int:
        """Reads up to `size` bytes into the batch. Returns their number, 0 at the current end."""
        data = self.reader.read(size)
        self._add(self.splitter.feed(data), data)
        return len(data)

    def again_at_last_nuls(self) -> int:
        """Moves back before NUL bytes at the end of a plain file, in whose place its writer may yet put lines. Returns
        their number."""
        nuls = self.splitter.forget_last_nuls(READ_BYTES)
        self.reader.raw.back(nuls)
        return nuls

    def finish(self) -> None:
        """Adds the last line even without a line feed."""
        self._add(self.splitter.finish(), b"")

    def finish_whole(self) -> None:
        """Adds the last line of a file that may grow if it is whole although it is marked as a part."""
        self._add(self.splitter.finish_whole(), b"")

    def release(self) -> None:
        """Adds the lines that wait for the rest of another one, see LineSplitter."""
        self._add(self.splitter.release(), b"")

    def broken(self, error: InputError) -> InputError:
        """The error of reading, with the number of imported lines; call it after the last commit."""
        problem = f"{error.problem}. {self.committed_lines:,} lines of it went in"
        return InputError(problem, error.remedy)

    @property
    def due(self) -> bool:
        """Whether the batch is large or old enough to be committed."""
        return self._batch.records >= self._how.most_records or self._batch.size >= BATCH_BYTES

    @property
    def overdue(self) -> bool:
        return bool(self._batch.size) and time.monotonic() - self._since >= BATCH_SECONDS

    def commit(self, report: Report) -> None:
        """Sends the batch, and reports its lines."""
        if not self._batch.size:
            return
        entry = self.entry
        self._send(self._batch, entry)
        report.added += self._lines - self.committed_lines
        comments, nuls = self._reported
        report.comments += self.comments.count - comments
        report.nuls += self.splitter.nuls - nuls
        self.committed_lines, self._reported = self._lines, (self.comments.count, self.splitter.nuls)
        self._batch = Batch(entry)

    @property
    def entry(self) -> Entry:
        """The entry of all records so far."""
        splitter, comments = self.splitter, self.comments
        return Entry(
            id=self.entry_id,
            site=self._how.site,
            path=self.path,
            offset=splitter.offset,
            lines=splitter.lines,
            prefix_length=0 if self._stream else len(splitter.prefix),
            prefix_sha256=digest(splitter.prefix),
            tail_sha256=digest(splitter.tail),
            chunk=splitter.chunk,
            unended=splitter.unended,
            fields=comments.fields,
            comments=comments.count,
            start=splitter.start,
            encoding=splitter.text.encoding,
            line_end=splitter.text.line_end,
        )

    @property
    def _lines(self) -> int:
        return self.splitter.lines - self.comments.count

    def _add(self, block: Block, data: bytes) -> None:
        if block.size:
            if not self._batch.size:
                self._since = time.monotonic()
            for part in self.comments.without(block, data):
                self._batch.add(part)
                self._how.look(part)
