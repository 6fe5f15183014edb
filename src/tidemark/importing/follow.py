"""Follows files while they are written: growth, rotation by rename or by copy and truncate, new files."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import InputError
from tidemark.importing.compression import TruncatedError
from tidemark.importing.file_import import FileImport, Report, Send
from tidemark.importing.files import start_file
from tidemark.importing.identity import recognise
from tidemark.importing.importer import Options, open_progress, open_sender
from tidemark.importing.producer import Sender
from tidemark.importing.progress import Progress
from tidemark.importing.raw import READ_BYTES, state_of
from tidemark.importing.sources import STDIN, followable, matching, open_reader
from tidemark.importing.text import HEAD_BYTES

POLL_SECONDS = 0.2
SCAN_SECONDS = 1.0
GRACE_SECONDS = 5.0  # A writer may keep a renamed file open, or a line unfinished, for a moment.
TRUNCATED_SECONDS = 60.0  # After this long, a compressed file that ends in the middle is named.
# Senders are closed while their files do not grow, or where there would be too many: each has about four threads and
# eight open files.
IDLE_SECONDS = 60.0
MOST_OPEN = 50
_HEAD_BYTES = 4096
_TURN_BYTES = 32 * READ_BYTES

Key = tuple[int, int]


def follow_files(patterns: Sequence[str], options: Options, report: Report) -> None:
    """Imports the files of `patterns` and their new lines until `options.stopped()`; fills `report`.

    Waits for files that do not exist yet. A last line waits for its line feed until its file is
    rotated out: no pattern matches it and nothing was added for GRACE_SECONDS. In a compressed file
    it is imported as it is. Raises InputError, KafkaError.
    """
    for option, given in (("--again", options.again), ("--complete", options.complete)):
        if given:
            raise InputError(f"{option} does not go with --follow", f"Import the files once with {option}.")
    for pattern in patterns:
        if pattern == STDIN:
            raise InputError(
                "standard input cannot be followed beside files",
                "Import it by a command of its own; a pipe is read as it comes.",
            )
        if followable(pattern):
            continue
        options.say(f"{pattern}: no such file yet, waiting for it")
    progress = open_progress(options.kafka)
    follower = _Follower(patterns, progress, options, report)
    try:
        follower.run()
    finally:
        report.stopped = True
        follower.close()
        progress.close()


@dataclass
class _Tail:
    """One open file. `ids` are its entries in the progress; `orphaned` is when its path was last seen."""

    work: FileImport
    ids: set[str]
    head: bytes
    orphaned: float | None = None


class _Follower:
    def __init__(self, patterns: Sequence[str], progress: Progress, options: Options, report: Report) -> None:
        self._patterns = patterns
        self._progress = progress
        self._options = options
        self._report = report
        self._tails: dict[Key, _Tail] = {}
        self._settled: dict[Key, tuple[int, int]] = {}
        self._short: dict[Key, str] = {}  # Files that hold only an unfinished line.
        self._truncated: dict[Key, tuple[float, str]] = {}
        self._complained: set[str] = set()
        self._senders = SenderPool(progress, options)

    def run(self) -> None:
        scanned = 0.0
        while not self._options.stopped():
            more = [self._pump(key, tail) for key, tail in list(self._tails.items())]
            if time.monotonic() - scanned >= SCAN_SECONDS:
                self._scan()
                self._report_truncated(time.monotonic() - TRUNCATED_SECONDS)
                self._senders.close_idle()
                scanned = time.monotonic()
            if not any(more):
                time.sleep(POLL_SECONDS)
        self._leave()

    def _leave(self) -> None:
        for tail in self._tails.values():
            if not tail.work.reader.raw.status.st_nlink:
                tail.work.finish()  # It was removed: its rest cannot be imported any more.
            self._report.unfinished += tail.work.splitter.unfinished
        self._report.unfinished += len(self._short)
        self._commit()
        self._report_truncated(math.inf)

    def close(self) -> None:
        for tail in self._tails.values():
            tail.work.reader.close()
        self._senders.close()

    def _pump(self, key: Key, tail: _Tail) -> bool:
        """Reads new bytes of one file. True if more may be waiting."""
        work = tail.work
        if work.reader.compressed:
            return self._pump_compressed(key, tail)
        size, position = work.reader.raw.status.st_size, work.splitter.offset + work.splitter.pending
        if size < position or not work.reader.begins_with(tail.head, work.splitter.start):
            # Truncated or overwritten in place: its content is now another file.
            overwritten = size >= position and not work.reader.begins_with(b"\0", 0)
            self._drop(key)
            if overwritten:
                self._options.say(
                    f"{work.path} begins with other lines than before: all its lines are imported"
                )
            if work.splitter.unfinished:
                self._left(f"{work.path} was truncated in the middle of a line, which only its copy has")
            return False
        read = 0
        while read < _TURN_BYTES and (more := work.read(READ_BYTES)):
            read += more
            if work.due:
                work.commit(self._report)
        read -= work.again_at_last_nuls()
        if work.overdue:
            work.commit(self._report)
        if read:
            if len(tail.head) < _HEAD_BYTES:
                tail.head = work.splitter.prefix[:_HEAD_BYTES]
            tail.orphaned = tail.orphaned and time.monotonic()
        elif tail.orphaned and time.monotonic() - tail.orphaned > GRACE_SECONDS:
            work.finish()
            self._drop(key)
        return read >= _TURN_BYTES

    def _pump_compressed(self, key: Key, tail: _Tail) -> bool:
        """Reads a compressed file to its end, and again only when it has changed."""
        work = tail.work
        self._settled[key] = state_of(work.reader.raw.status)
        self._truncated.pop(key, None)
        error: InputError | None = None
        try:
            while not self._options.stopped() and work.read(READ_BYTES):
                if work.due:
                    work.commit(self._report)
            if not self._options.stopped():
                work.finish()
        except InputError as fault:
            error = fault
        self._drop(key)
        if isinstance(error, TruncatedError):
            self._truncated[key] = time.monotonic(), str(work.broken(error))  # Probably still being written.
        elif error is not None:
            self._complain(str(work.broken(error)))
        return False

    def _report_truncated(self, before: float) -> None:
        """Reports the compressed files that end in the middle and have not changed since `before`."""
        for key, (since, text) in list(self._truncated.items()):
            if since <= before:
                del self._truncated[key]
                self._complain(text)

    def _drop(self, key: Key) -> None:
        tail = self._tails.pop(key)
        tail.work.commit(self._report)
        tail.work.reader.close()

    def _commit(self) -> None:
        for tail in self._tails.values():
            tail.work.commit(self._report)

    def _scan(self) -> None:
        """Finds the files that match the patterns now: opens new ones, marks those that are gone."""
        seen: set[Key] = set()
        for pattern in self._patterns:
            for path in matching(pattern):
                if self._options.stopped():
                    return  # Each new file takes a moment, and there may be thousands.
                try:
                    status = Path(path).stat()
                except OSError:
                    continue
                key = (status.st_dev, status.st_ino)
                seen.add(key)
                state = state_of(status)
                if key not in self._tails and status.st_size and self._settled.get(key) != state:
                    self._try_open(path, key, state)
        for key, tail in self._tails.items():
            tail.orphaned = None if key in seen else tail.orphaned or time.monotonic()
        self._settled = {key: state for key, state in self._settled.items() if key in seen}
        for key in self._short.keys() - seen:
            self._left(f"{self._short.pop(key)} is gone; it held one line that had not ended")

    def _try_open(self, path: str, key: Key, state: tuple[int, int]) -> None:
        self._short.pop(key, None)
        try:
            tail = self._open(path, key, state)
        except TruncatedError as error:
            self._settled[key] = state
            self._truncated[key] = time.monotonic(), str(error)
        except InputError as error:
            self._complain(str(error))
        else:
            if tail is None:
                return
            # The path may have a new file since the check.
            if tail.work.reader.raw.key in self._tails:
                tail.work.reader.close()
                return
            self._tails[tail.work.reader.raw.key] = tail
            self._report.files += 1
            # At once, so that a copy found by the same scan is recognised.
            self._pump(tail.work.reader.raw.key, tail)
            tail.work.commit(self._report)

    def _open(self, path: str, key: Key, state: tuple[int, int]) -> _Tail | None:
        """Opens a file at the position of its import; None if it must wait or has nothing to add."""
        with open_reader(path) as reader:
            head, compressed, changed = reader.head(), reader.compressed, reader.raw.status.st_mtime
        # While the first line may yet end with a line feed, a carriage return may be part of it.
        by_returns = head.text.line_end == "\r" and len(head.data) < HEAD_BYTES
        growing = by_returns and abs(time.time() - changed) < GRACE_SECONDS
        if not compressed and (growing or not head.has_line):
            self._short[key] = path
            return None  # Without a complete first line it cannot be identified.
        # A copy of an open file must see all lines imported from that file.
        self._commit()
        first_line = head.first_line
        self._senders.get(first_line)
        self._progress.refresh()
        match = recognise(path, self._progress.of_site(self._options.site))
        if match.entry is not None:
            if any(match.entry.id in tail.ids for tail in self._tails.values()):
                return None  # An unfinished or compressed copy: it is imported after the original.
            if match.kind == "shorter":
                self._settled[key] = state
                return None
        entries = self._progress.of_site(self._options.site)
        work = start_file(path, self._senders.send_for(first_line), entries, self._options)
        if work is None:
            return None
        self._report.known += work.committed_lines
        ids = {work.entry_id} | ({match.entry.id} if match.entry else set())
        return _Tail(work, ids, work.splitter.prefix[:_HEAD_BYTES])

    def _left(self, text: str) -> None:
        self._report.unfinished += 1
        self._options.say(text)

    def _complain(self, text: str) -> None:
        if text not in self._complained:
            self._complained.add(text)
            self._options.say(text)


class SenderPool:
    """One sender per first line; files with the same first line share it and its id."""

    def __init__(self, progress: Progress, options: Options) -> None:
        self._progress = progress
        self._options = options
        self._open: dict[bytes, tuple[Sender, float]] = {}

    def get(self, first_line: bytes) -> Sender:
        """The sender, opened if necessary. The progress then includes the commits of earlier senders."""
        # To be the last one again: the first was used least recently.
        pooled = self._open.pop(first_line, None)
        if pooled is None and len(self._open) >= MOST_OPEN:
            self._open.pop(next(iter(self._open)))[0].close()
        sender = pooled[0] if pooled else open_sender(first_line, self._progress, self._options)
        self._open[first_line] = sender, time.monotonic()
        return sender

    def send_for(self, first_line: bytes) -> Send:
        return lambda batch, entry: self.get(first_line).send(batch, entry)

    def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        for first_line, (sender, used) in list(self._open.items()):
            if time.monotonic() - used >= seconds:
                del self._open[first_line]
                sender.close()

    def close(self) -> None:
        self.close_idle(0.0)
