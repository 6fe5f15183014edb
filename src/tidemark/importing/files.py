"""Reads files and streams batch by batch, each line of a file once. The caller says where the batches go."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from tidemark.errors import InputError
from tidemark.importing.file_import import BATCH_SECONDS, FileImport, ReadOptions, Report, Send
from tidemark.importing.identity import Entry, Match, digest, recognise, resume
from tidemark.importing.lines import Block
from tidemark.importing.raw import READ_BYTES
from tidemark.importing.reader import Reader
from tidemark.importing.sources import Spooled, open_reader

_PIPE_BYTES = 1024 * 1024  # The capacity of a pipe.


def read_file(path: str, entries: Iterable[Entry], send: Send, how: ReadOptions, report: Report) -> None:
    """Sends the lines of a regular file that `entries`, those of its site, do not have. Raises InputError; what was
    sent before stays."""
    work = start_file(path, send, entries, how)
    if work is None:
        how.say(f"{path}: a longer copy was imported before, nothing added (--again adds it)")
        with open_reader(path) as reader:
            how.advance(reader.raw.status.st_size)
        return
    report.known += work.committed_lines
    with work.reader:
        drain(work, how, report, complete=how.complete or work.reader.compressed)


def start_file(
    source: str | Spooled, send: Send, entries: Iterable[Entry], how: ReadOptions, *, entry_id: str = ""
) -> FileImport | None:
    """Opens a regular file at the position that `entries` have of it; None if they have a longer copy. `entry_id` is
    the id of its entry where it does not depend on its content.

    With Kafka, call it when the file's sender is ready: only then is this file's progress final.
    """
    candidates = [] if how.again else list(entries)
    match = recognise(source, candidates) if candidates else Match("new")
    if match.kind == "shorter" and match.entry is not None:
        return None
    known = match.entry
    reader = open_reader(source, verify=True, stopped=how.stopped)
    if not entry_id:
        # Under another name it may be a copy that continues differently: keep the first one's entry.
        entry_id = known.id if known is not None and known.path == reader.name else uuid.uuid4().hex
    try:
        return FileImport(reader, known, entry_id, send, how)
    except BaseException:
        reader.close()
        raise


def start_stream(reader: Reader, send: Send, how: ReadOptions) -> FileImport:
    """The import of a stream. Its entry only serves to find out whether an uncertain commit succeeded."""
    return FileImport(reader, None, uuid.uuid4().hex, send, how, stream=True)


def read_again(path: str, before: Entry | None, after: Entry) -> list[Block]:
    """The records of a file between two entries (None: from the beginning), as they were read before. Raises InputError
    if it has changed meanwhile."""
    with open_reader(path) as reader:
        text = reader.head().text
        splitter, comments = resume(reader, before)
        # A part of a long line is complete once more of the line is known.
        left = after.offset - splitter.offset + (2 * text.unit if after.chunk else 0)
        blocks: list[Block] = []
        while left > 0 and (data := reader.read(min(left, READ_BYTES))):
            left -= len(data)
            blocks += comments.without(splitter.feed(data), data)
        if splitter.ends_in_nuls:  # These were left out because something followed them.
            blocks += comments.without(splitter.feed("x".encode(text.encoding)), b"")
        elif not after.chunk:
            blocks += comments.without(splitter.finish(), b"")
    if (splitter.offset, digest(splitter.tail)) != (after.offset, after.tail_sha256):
        raise InputError(f"{path} has changed while it was read", "Start again.")
    return blocks


def drain(work: FileImport, how: ReadOptions, report: Report, *, complete: bool) -> None:
    """Imports the rest of a file; with `complete` its last line as it is."""
    try:
        _read_on(work, how, report, complete=complete)
    except InputError as error:
        # Bytes read before the fault are correct.
        work.commit(report)
        raise work.broken(error) from error
    work.commit(report)


def _read_on(work: FileImport, how: ReadOptions, report: Report, *, complete: bool) -> None:
    reader, position, left = work.reader, 0, _PIPE_BYTES
    while True:
        if how.stopped():
            report.stopped = True
            if reader.regular:
                return
            # Bytes in the pipe would be lost with it.
            if left <= 0 or not reader.raw.ready(0):
                work.release()
                break
        elif not reader.raw.ready(BATCH_SECONDS):
            work.commit(report)
            continue
        size = work.read(READ_BYTES)
        how.advance(reader.raw_position - position)
        position = reader.raw_position
        left -= size if report.stopped else 0
        if not size and not (reader.regular and how.stopped()):
            if complete:
                work.finish()
            else:
                work.finish_whole()
            break
        if work.due or (not reader.regular and work.overdue):
            work.commit(report)
    report.unfinished += work.splitter.unfinished
