"""Log files into the tables of a home without Kafka and Spark: the pipeline's recipes, in processes of our own.

Files are read in order. Each part of some ten thousand lines is processed by a worker, which returns partial rows and
the names of written files. Several parts are a batch. It is recorded in a journal before its first commit, and its
commits carry its number: after a kill the same batch runs again, and tables that have its number skip it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa

from tidemark.contract.store import Commit, DataFile, Directory
from tidemark.engine.batches import Executed
from tidemark.engine.tasks import Outcome, Partials, Task, chunks
from tidemark.engine.work import Work
from tidemark.errors import InputError
from tidemark.importing import journal
from tidemark.importing.file_import import Batch, Joined, ReadOptions, Report
from tidemark.importing.files import drain, read_again, read_file, start_file, start_stream
from tidemark.importing.identity import Entry, recognise
from tidemark.importing.journal import Journal, Part, Planned
from tidemark.importing.lines import Block
from tidemark.importing.sources import Spooled, is_stream, open_content
from tidemark.kafka.records import DEFAULT_SITE
from tidemark.pipeline import Pipeline
from tidemark.stream.accounting import SiteCounts
from tidemark.stream.commits import Committer
from tidemark.stream.crash import crash_point

# Lines that a worker takes at a time.
PART_RECORDS = 50_000
# Parts of a batch: a larger batch merges fewer rows into the tables for each of its lines.
BATCH_PARTS = 10
# Parts of each worker that are sent and not done: their lines are in memory.
SENT_PARTS = 2
# Upkeep follows after this many batches.
UPKEEP_BATCHES = 100
_WRITER = "files"
_THREADS = 8


@dataclass(frozen=True)
class PartWork:
    """The work on a part of a batch, which can be sent to another process.

    `lines` makes rows of bronze of records. `requests` is the work on these; `activity` that on the new rows of the
    table `accepted`. Written files have `label` in their names.
    """

    lines: Callable[[pa.Table], pa.Table]
    requests: Work
    activity: Work
    accepted: str
    directories: Mapping[str, Directory]
    label: str

    def __call__(self, records: pa.Table) -> tuple[Outcome, Outcome]:
        """The outcomes of both works. Writes files."""
        first, second = Task(self.requests, self.directories, self.label), Task(self.activity, {}, self.label)
        for chunk in chunks(self.requests, iter([self.lines(records)])):
            second.add(first.add(chunk)[self.accepted])
        files: dict[str, list[DataFile]] = {}
        for table, file in first.files():
            files.setdefault(table, []).append(file)
        return Outcome(files, dict(first.partials())), Outcome(partials=dict(second.partials()))


@dataclass
class _Running:
    """A part under way. `records` are kept where its lines may be left out as repeated deliveries."""

    work: PartWork
    outcomes: Future[tuple[Outcome, Outcome]]
    records: pa.Table | None


@dataclass
class _Open:
    """A batch that is being read. Lateness is measured by `counts`."""

    counts: SiteCounts
    arrived: datetime = field(default_factory=partial(datetime.now, UTC))
    parts: list[Part] = field(default_factory=list)
    running: list[_Running] = field(default_factory=list)

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)


class FileRun:
    """Reads files into the tables of a home, whose journal has no other writer. Creates missing tables.

    `pool` runs the work on parts, in about `workers` processes or threads. `site` and `format` are those of the lines.
    `committed` is called after each batch.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        pool: Executor,
        workers: int,
        *,
        site: str = DEFAULT_SITE,
        format: str = "",
        part_records: int = PART_RECORDS,
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        self.journal = Journal.open(pipeline.settings.home / journal.NAME)
        # No stream reads the tables.
        self._pipeline = pipeline = replace(pipeline, readers={})
        self._pool = pool
        self._workers = workers
        self._free = threading.Semaphore(SENT_PARTS * workers)
        self._site = site
        self._part_records = part_records
        self._headers = headers_of(site, format)
        self._advance: Callable[[int], None] = lambda size: None
        self._unsent_bytes = 0
        self._committed = committed
        store, settings = pipeline.store, pipeline.settings
        with ThreadPoolExecutor(_THREADS) as threads:
            list(
                threads.map(
                    lambda table: store.ensure(table, table.reader_properties(settings)), pipeline.tables
                )
            )
        self._requests = Committer(pipeline.requests(pipeline.validation()), pipeline)
        self._activity = Committer(pipeline.activity, pipeline)
        # What the reading thread and the committing one share, under `_changed`.
        self._changed = threading.Condition()
        self._counts = self._requests.counts
        self._open = _Open(self._counts)
        self._prompt = self._busy = self._flushing = self._ended = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._keep_committing, daemon=True)

    def start(self, paths: Sequence[str]) -> None:
        """Runs the batches that a killed process has recorded, and not finished, again; then accepts more. Raises
        InputError if none of `paths` has their lines any more."""
        for planned in list(self.journal.unfinished):
            counts = replace(self._counts, newest=planned.newest)
            batch, first = _Open(counts, planned.arrived), planned.first
            for part in planned.parts:
                blocks = read_again(_path_of(part, paths), part.before, part.after)
                self._add(batch, part, self._records(blocks), first)
                first += part.records
            self._commit(planned, batch)
        self._thread.start()

    def read(self, paths: Sequence[str], how: ReadOptions, report: Report) -> list[InputError]:
        """Reads what the tables do not have of the files and streams, and returns when they have it. Returns the errors
        of files that cannot be read to their ends; what was read before is in the tables. Calls `how.advance` from
        other threads, too."""
        how, errors = self._options(how), list[InputError]()
        for path in paths:
            if how.stopped():
                report.stopped = True
                break
            report.files += 1
            try:
                self._read(path, how, report)
            except InputError as error:
                errors.append(error)
        if not report.stopped:
            self._flush()
        return errors

    def read_objects(self, sources: Iterable[Spooled], how: ReadOptions, report: Report) -> list[InputError]:
        """Reads sources that cannot be read again, such as objects. Small ones share a part. Returns as `read`."""
        how, errors = self._options(how), list[InputError]()
        joined = Joined(lambda batch, entry: self._take(entry.path, batch, entry), self._part_records)
        try:
            for source in sources:
                report.files += 1
                try:
                    work = start_file(source, joined.add, [], how)
                    assert work is not None, "no other import has read it"
                    with work.reader:
                        drain(work, how, report, complete=True)
                except InputError as error:
                    errors.append(error)
        except InputError as error:
            errors.append(error)
        joined.flush()
        report.stopped = how.stopped()
        if not report.stopped:
            self._flush()
        return errors

    def close(self) -> None:
        """Ends after the current batch. Parts that are in no batch yet are read again next time."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _options(self, how: ReadOptions) -> ReadOptions:
        """These options, for the parts of this run. Bytes count once the work on their lines is done."""
        self._advance = how.advance
        return replace(how, most_records=self._part_records, site=self._site, advance=self._note_read)

    def _read(self, path: str, how: ReadOptions, report: Report) -> None:
        send = partial(self._take, path)
        with self._changed:
            self._prompt = is_stream(path)
            opened = {part.after.id: part.after for part in self._open.parts}
            known = {**self.journal.entries, **opened}
        if not self._prompt:
            read_file(path, known.values(), send, how, report)
            return
        with open_content(path, verify=True, stopped=how.stopped) as reader:
            drain(start_stream(reader, send, how), how, report, complete=True)

    def _take(self, path: str, read: Batch, entry: Entry) -> None:
        """Adds what was read to the open batch; waits while that is full."""
        records = self._records(read.blocks)
        done, self._unsent_bytes = partial(self._advance, self._unsent_bytes), 0
        with self._changed:
            self._changed.wait_for(lambda: self._error or len(self._open.parts) < self._most_parts)
            self._raise_error()
            if not self._open.parts:
                self._open = _Open(self._counts)
            first = self.journal.offset + self._open.records
            part = Part(path, read.before, entry, read.records)
            self._add(self._open, part, records, first, done)
            self._changed.notify_all()

    def _note_read(self, size: int) -> None:
        self._unsent_bytes += size

    def _flush(self) -> None:
        """Returns when all that was read is in the tables."""
        with self._changed:
            self._flushing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._error or not (self._open.parts or self._busy))
            self._flushing = False
            self._raise_error()

    def _raise_error(self) -> None:
        if self._error:
            raise self._error

    @property
    def _most_parts(self) -> int:
        """The parts of a batch. The first one is small, so that there are figures soon."""
        return self._workers if self.journal.number == 0 else BATCH_PARTS

    def _add(
        self,
        batch: _Open,
        part: Part,
        records: pa.Table,
        first: int,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """Adds a part, whose records have the offsets from `first` on, and begins the work on it; calls `done` at its
        end."""
        batch.parts.append(part)
        if not records.num_rows:
            done()
            return
        pipeline, topic = self._pipeline, self._pipeline.settings.kafka.topic
        label = f"{_WRITER}-{first:010d}"
        appends = self._requests.recipe.work.appends
        directories = {table.name: pipeline.store.directory(table) for table, _ in appends}
        work = PartWork(
            lines=partial(pipeline.lines, topic=topic, first=first, arrived=batch.arrived),
            requests=self._requests.recipe.work_on_lines(batch.counts),
            activity=self._activity.recipe.work,
            accepted=pipeline.graph.accepted.name,
            directories={name: directory for name, directory in directories.items() if directory},
            label=label,
        )
        kept = records if pipeline.may_have_ids(records) else None
        outcomes = self._pool.submit(work, records)
        outcomes.add_done_callback(lambda _: self._free.release())
        outcomes.add_done_callback(lambda _: done())
        batch.running.append(_Running(work, outcomes, kept))

    def _records(self, blocks: Sequence[Block]) -> pa.Table:
        """The records of blocks; waits until they can be sent to a worker."""
        records = records_of(blocks, self._headers)
        if records.num_rows:
            self._free.acquire()
        return records

    def _keep_committing(self) -> None:
        try:
            while (batch := self._next()) is not None:
                self._commit(*batch)
                if batch[0].number % UPKEEP_BATCHES == UPKEEP_BATCHES - 1:
                    from tidemark.operate.upkeep import maintain  # rarely needed

                    maintain(self._pipeline)
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
        except BaseException as error:  # raised again by the reading thread
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _next(self) -> tuple[Planned, _Open] | None:
        """Waits for the next batch, and records it; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._is_complete())
            if self._ended:
                return None
            batch, known = self._open, self.journal
            planned = Planned(
                known.number, known.offset, batch.arrived, batch.counts.newest, tuple(batch.parts)
            )
            known.plan(planned)
            self._open, self._busy = _Open(self._counts), True
            self._changed.notify_all()
        return planned, batch

    def _is_complete(self) -> bool:
        parts = len(self._open.parts)
        return bool(parts) and (parts >= self._most_parts or self._flushing or self._prompt)

    def _commit(self, planned: Planned, batch: _Open) -> None:
        number, started = planned.number, datetime.now(UTC)
        crash_point(f"{_WRITER}:planned")
        if batch.running:
            outcomes = [each.outcomes.result() for each in batch.running]
            requests, activity = batch.running[0].work.requests, self._activity.recipe.work

            def again(keys: pa.Table | None) -> Outcome:
                for index, each in enumerate(batch.running):
                    if each.records is not None:
                        work = replace(each.work, requests=replace(each.work.requests, left_out=keys))
                        outcomes[index] = self._pool.submit(work, each.records).result()
                return _joined(requests, [lines for lines, _ in outcomes])

            lines = Executed(_joined(requests, [lines for lines, _ in outcomes]), again)
            self._requests.write(lines, Commit(f"{self._requests.recipe.name}/{_WRITER}", number), started)
            rows = Executed(_joined(activity, [rows for _, rows in outcomes]), again)
            self._activity.write(rows, Commit(f"{self._activity.recipe.name}/{_WRITER}", number), started)
        self._pipeline.lakehouse.sync()
        crash_point(f"{_WRITER}:before-done")
        self.journal.done(number)
        self._counts = self._requests.counts
        self._committed()


def headers_of(site: str = DEFAULT_SITE, format: str = "") -> dict[str, str | None]:
    """The headers of lines of a site and a format; None where a sender leaves it out."""
    return {"site": None if site == DEFAULT_SITE else site, "format": format or None}


def records_of(blocks: Sequence[Block], headers: Mapping[str, str | None]) -> pa.Table:
    """The records of blocks, with what a sender would say of them in headers: `site`, `format`, `fields`, `chunk`."""
    text = pa.string()
    names = ("value", "site", "format", "fields", "chunk")
    schema = pa.schema([(name, pa.binary() if name == "value" else text) for name in names])
    tables = [schema.empty_table()]
    for block in blocks:
        chunk = [*[None] * len(block.lines), *(number for _, number in block.parts)]
        values = {**headers, "fields": block.fields or None}
        columns = {
            "value": pa.array([*block.lines, *(data for data, _ in block.parts)], pa.binary()),
            **{name: pa.repeat(pa.scalar(value, text), len(chunk)) for name, value in values.items()},
            "chunk": pa.array(chunk, text) if block.parts else pa.nulls(len(chunk), text),
        }
        tables.append(pa.table(columns).select(names))
    return pa.concat_tables(tables)


def _joined(work: Work, outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of a batch, of those of its parts."""
    files: dict[str, list[DataFile]] = {}
    partials: dict[str, list[pa.Table]] = {}
    for outcome in outcomes:
        for name, written in outcome.files.items():
            files.setdefault(name, []).extend(written)
        for name, rows in outcome.partials.items():
            partials.setdefault(name, []).append(rows)
    return Outcome(files, Partials(work, partials))


def _path_of(part: Part, paths: Sequence[str]) -> str:
    """Where the file of a part is now."""
    for path in dict.fromkeys([part.path, *paths]):
        if Path(path).is_file() and recognise(path, [part.after]).kind == "same":
            return path
    raise InputError(f"{part.path} no longer has the lines that were read of it", "Start again.")
