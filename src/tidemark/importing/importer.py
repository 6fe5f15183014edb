"""Imports files: read, batch, send; each line of a file once, however often it is imported."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import InputError, SettingError
from tidemark.importing.file_import import ReadOptions, Report
from tidemark.importing.files import drain, read_file, start_stream
from tidemark.importing.identity import read_head
from tidemark.importing.producer import PATIENCE_SECONDS, Sender
from tidemark.importing.progress import Progress
from tidemark.importing.sources import STDIN, expand, open_content
from tidemark.kafka import client as kafka
from tidemark.kafka.records import DEFAULT_SITE, Headers
from tidemark.parse.formats import FORMATS
from tidemark.settings.sections import KafkaSettings

if TYPE_CHECKING:  # takes a second to import, which only masked lines need
    from tidemark.privacy.door import Door


@dataclass(frozen=True)
class Options(ReadOptions):
    """Options of one call. `own_formats` are those that the user has declared. `door` masks the lines."""

    kafka: KafkaSettings
    format: str = field(default="", kw_only=True)
    own_formats: tuple[str, ...] = field(default=(), kw_only=True)
    patience: float = field(default=PATIENCE_SECONDS, kw_only=True)
    door: Door | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
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
    require_topic(settings)
    return Progress(settings)


def require_topic(settings: KafkaSettings) -> None:
    """Ensures that Kafka is reachable and has the topic of lines. Raises KafkaError."""
    kafka.require_reachable(settings)
    kafka.ensure_topic(settings, settings.topic)


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
        read_file(path, progress.of_site(options.site), sender.send, options, report)
    finally:
        sender.close()


def _import_stream(path: str, progress: Progress, options: Options, report: Report) -> None:
    """Imports a stream. Its entry only serves to find out whether an uncertain commit succeeded."""
    with ExitStack() as stack:
        reader = stack.enter_context(open_content(path, verify=True, stopped=options.stopped))
        reader.head()  # waits for the first line
        sender = open_sender(uuid.uuid4().bytes, progress, options)
        stack.callback(sender.close)
        work = start_stream(reader, sender.send, options)
        try:
            drain(work, options, report, complete=True)
        except InputError:
            sender.forget(work.entry_id)
            raise
        sender.forget(work.entry_id)
