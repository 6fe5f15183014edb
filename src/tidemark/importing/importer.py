"""Imports files: read, batch, send; each line of a file once, however often it is imported."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import InputError, SettingError
from tidemark.importing.comments import Comments
from tidemark.importing.compression import READ_BYTES
from tidemark.importing.file_import import BATCH_SECONDS, FileImport, Look, Report, Send
from tidemark.importing.identity import read_head, recognise, resume
from tidemark.importing.lines import LineSplitter
from tidemark.importing.producer import PATIENCE_SECONDS, Sender
from tidemark.importing.progress import Progress
from tidemark.importing.sources import STDIN, expand, open_content, open_reader
from tidemark.kafka import client as kafka
from tidemark.kafka.records import DEFAULT_SITE, Headers
from tidemark.parse.formats import FORMATS
from tidemark.settings.sections import KafkaSettings

if TYPE_CHECKING:  # takes a second to import, which only masked lines need
    from tidemark.privacy.door import Door

_PIPE_BYTES = 1024 * 1024  # The capacity of a pipe.


@dataclass(frozen=True)
class Options:
    """Options of one call. `own_formats` are those that the user has declared. `complete`: a last line without a
    line feed is complete.

    `door` masks the lines. `say` gets notices; `stopped` is called between blocks. `look` sees each block of lines that
    is read.
    """

    kafka: KafkaSettings
    site: str = DEFAULT_SITE
    format: str = ""
    own_formats: tuple[str, ...] = ()
    again: bool = False
    complete: bool = False
    say: Callable[[str], None] = print
    stopped: Callable[[], bool] = lambda: False
    advance: Callable[[int], None] = lambda _: None
    look: Look = lambda _: None
    patience: float = PATIENCE_SECONDS
    door: Door | None = None

    def __post_init__(self) -> None:
        if not self.site or len(self.site) > 200 or not self.site.isprintable():
            raise SettingError(f"{self.site!r} is not a site name", "Use up to 200 printable characters.")
        known = (*FORMATS, *self.own_formats)
        if self.format and self.format not in known:
            raise SettingError(f"unknown format {self.format!r}", f"Use one of {', '.join(known)}.")

    @property
    def headers(self) -> Headers:
        """Record headers without defaults, which would take space in every record."""
        headers: Headers = []
        if self.site != DEFAULT_SITE:
            headers.append(("site", self.site))
        if self.format:
            headers.append(("format", self.format))
        return headers


def import_files(patterns: Sequence[str], options: Options, report: Report | None = None) -> Report:
    """Imports the files of `patterns` into the settings' topic, one after the other; fills `report`.

    Checks all inputs before it sends the first line. Calls `options.advance` with the number of processed
    input bytes (compressed ones of a compressed file). Raises InputError, KafkaError, SettingError; lines
    committed before stay, and a later call continues after them. A file that cannot be read to
    its end does not stop the others.
    """
    paths = expand(patterns)
    progress = open_progress(options.kafka)
    report = Report() if report is None else report
    errors: list[InputError] = []
    try:
        for path in paths:
            if options.stopped():
                report.stopped = True
                break
            report.files += 1
            try:
                _import_file(path, progress, options, report)
            except InputError as error:
                errors.append(error)
    finally:
        progress.close()
    # A `tidemark run --once` right after this must find every line.
    kafka.await_committed(options.kafka, options.kafka.topic)
    for earlier in errors[:-1]:
        options.say(str(earlier))
    if errors:
        raise errors[-1]
    return report


def open_progress(settings: KafkaSettings) -> Progress:
    """Ensures that Kafka is reachable and has both topics, then reads the progress. Raises KafkaError."""
    kafka.require_reachable(settings)
    kafka.ensure_topic(settings, settings.topic)
    return Progress(settings)


def open_sender(first_line: bytes, progress: Progress, options: Options) -> Sender:
    """A sender for the file that starts with `first_line`: each import of it has the same id."""
    return Sender(
        options.kafka,
        progress,
        transactional_id(options.kafka.topic, options.site, first_line),
        options.headers,
        door=options.door,
        say=options.say,
        stopped=options.stopped,
        patience=options.patience,
    )


def transactional_id(topic: str, site: str, first_line: bytes) -> str:
    name = hashlib.sha256(f"{site}\0".encode() + first_line).hexdigest()[:32]
    return f"tidemark-import-{topic}-{name}"


def start_file(path: str, send: Send, progress: Progress, options: Options) -> FileImport | None:
    """Opens a regular file at the position of its import; None if a longer copy is already imported.

    Call it when the file's sender is ready: only then is this file's progress final.
    """
    entries = progress.of_site(options.site)
    match = recognise(path, [] if options.again else entries)
    if match.kind == "shorter" and match.entry is not None:
        return None
    known = match.entry
    text = read_head(path).text
    reader = open_reader(path, verify=True, stopped=options.stopped)
    if known is None:
        splitter, comments = LineSplitter(text=text), Comments()
    else:
        splitter, comments = resume(reader, known), Comments(known.fields, known.comments)
    # Under another name it may be a copy that continues differently: keep the first one's entry.
    entry_id = known.id if known is not None and known.path == path else uuid.uuid4().hex
    return FileImport(reader, splitter, comments, entry_id, send, options.site, look=options.look)


def _import_file(path: str, progress: Progress, options: Options, report: Report) -> None:
    report.stream = path == STDIN or not Path(path).is_file()
    if report.stream:
        _import_stream(path, progress, options, report)
        return
    size = Path(path).stat().st_size
    first_line = read_head(path).first_line
    if not size:
        return
    sender = open_sender(first_line, progress, options)
    try:
        work = start_file(path, sender.send, progress, options)
        if work is None:
            options.say(f"{path}: a longer copy was imported before, nothing added (--again adds it)")
            options.advance(size)
            return
        report.known += work.committed_lines
        with work.reader:
            _drain(work, options, report, complete=options.complete or work.reader.compressed)
    finally:
        sender.close()


def _import_stream(path: str, progress: Progress, options: Options, report: Report) -> None:
    """Imports a stream. Its entry only serves to find out whether an uncertain commit succeeded."""
    with ExitStack() as stack:
        reader = stack.enter_context(open_content(path, verify=True, stopped=options.stopped))
        text = reader.head().text
        sender = open_sender(uuid.uuid4().bytes, progress, options)
        stack.callback(sender.close)
        work = FileImport(
            reader, LineSplitter(text=text), Comments(), uuid.uuid4().hex, sender.send, options.site,
            stream=True, look=options.look,
        )  # fmt: skip
        try:
            _drain(work, options, report, complete=True)
        except InputError:
            sender.forget(work.entry_id)
            raise
        sender.forget(work.entry_id)


def _drain(work: FileImport, options: Options, report: Report, *, complete: bool) -> None:
    """Imports the rest of a file; with `complete` its last line as it is."""
    try:
        _read_on(work, options, report, complete=complete)
    except InputError as error:
        # Bytes read before the fault are correct.
        work.commit(report)
        raise work.broken(error) from error
    work.commit(report)


def _read_on(work: FileImport, options: Options, report: Report, *, complete: bool) -> None:
    reader, position, left = work.reader, 0, _PIPE_BYTES
    while True:
        if options.stopped():
            report.stopped = True
            if reader.regular:
                return
            # Bytes in the pipe would be lost with it.
            if left <= 0 or not reader.ready(0):
                work.release()
                break
        elif not reader.ready(BATCH_SECONDS):
            work.commit(report)
            continue
        size = work.read(READ_BYTES)
        options.advance(reader.raw_position - position)
        position = reader.raw_position
        left -= size if report.stopped else 0
        if not size and not (reader.regular and options.stopped()):
            if complete:
                work.finish()
            else:
                work.finish_whole()
            break
        if work.due or (not reader.regular and work.overdue):
            work.commit(report)
    report.unfinished += work.splitter.unfinished
