"""Imports objects of a store: each version of an object once, in any order, by any number of imports."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tidemark.errors import InputError
from tidemark.importing.file_import import Report
from tidemark.importing.files import drain, start_file
from tidemark.importing.identity import Entry
from tidemark.importing.importer import Options, open_sender, require_topic
from tidemark.importing.object_failures import Failures
from tidemark.importing.object_group import LostError, ObjectGroup, lines_of
from tidemark.importing.object_progress import id_of, open_object_progress
from tidemark.importing.object_sources import nothing_selected, spooled
from tidemark.importing.producer import Sender
from tidemark.importing.progress import Progress
from tidemark.importing.sources import Spooled
from tidemark.kafka import client as kafka
from tidemark.objects.faults import MissingError, PassingError, RefusedError
from tidemark.objects.fetching import Fetched, fetched
from tidemark.objects.listing import Listed, Selection, Start, listed
from tidemark.objects.notifications import Queue
from tidemark.objects.store import Location, open_store

POLL_SECONDS = 10.0
# A listing takes at most this part of the time of an import that follows.
_LISTING_PART = 0.1
# All keys are listed this often, because late objects may have any key.
_WHOLE_SECONDS = 3600.0
_MOST_BROKEN = 10_000


@dataclass(frozen=True)
class ObjectOptions:
    """Which objects of which server are imported. `queue` is the URL of a queue of SQS whose notifications name them;
    otherwise they are listed."""

    endpoint: str = ""
    selection: Selection = field(default_factory=Selection)
    queue: str = ""


def import_objects(
    urls: Sequence[str], options: Options, wanted: ObjectOptions, report: Report, *, follow: bool = False
) -> None:
    """Imports the objects behind `urls` into the settings' topic; fills `report`, whose files are objects.

    With `follow` it continues until `options.stopped()`. Calls `options.advance` with the number of read bytes. Raises
    InputError, KafkaError, SettingError; what was committed before stays, and a later call continues after it. An
    object that cannot be read does not stop the others, unless the store refuses all of them.
    """
    if follow and options.again:
        raise InputError("--again does not go with --follow", "Import the objects once with --again.")
    locations = [open_store(url, endpoint=wanted.endpoint) for url in urls]
    queue = Queue(wanted.queue) if wanted.queue else None
    require_topic(options.kafka)
    with ExitStack() as stack:
        progress = open_object_progress(options.kafka)
        stack.callback(progress.close)
        senders: dict[str, Sender] = {}
        lasting = follow or queue is not None
        for each in locations:
            if each.store_url not in senders:
                sender = open_sender(f"objects\0{each.store_url}".encode(), progress, options)
                senders[each.store_url] = sender
                stack.callback(sender.close)
        imports = [
            _BucketImport(
                each, progress, senders[each.store_url], options, wanted.selection, report, lasting=lasting
            )
            for each in locations
        ]
        if queue:
            _take_notices(queue, imports, options, follow=follow)
        elif follow:
            _follow(imports, options)
            report.stopped = True
        else:
            _import_all(imports, options)
    # A `tidemark run --once` right after this must find every line.
    kafka.await_committed(options.kafka, options.kafka.topic)


def _import_all(imports: Sequence[_BucketImport], options: Options) -> None:
    """Imports all objects. Says all errors but the last, which it raises."""
    errors: list[InputError] = []
    for each in imports:
        try:
            each.import_all()
        except InputError as error:
            errors.append(error)
    for earlier in errors[:-1]:
        options.say(str(earlier))
    if errors:
        raise errors[-1]


def _follow(imports: Sequence[_BucketImport], options: Options) -> None:
    """Lists again and again until stopped."""
    while not options.stopped():
        began = time.monotonic()
        for each in imports:
            each.import_new()
        took = time.monotonic() - began
        _wait(max(POLL_SECONDS, took / _LISTING_PART - took), options.stopped)


def _take_notices(queue: Queue, imports: Sequence[_BucketImport], options: Options, *, follow: bool) -> None:
    """Imports the objects that notifications name, and acknowledges these once Kafka has the lines. Without `follow`
    it ends when the queue has no more."""
    foreign = ""
    while not options.stopped():
        notices = queue.receive(options.stopped, wait=follow)
        if not notices and not follow:
            return
        urls = {url for notice in notices for url in notice.urls}
        try:
            done = set[str]().union(*(each.import_noticed(urls) for each in imports))
        except RefusedError:
            raise
        except InputError as error:
            if not follow:
                raise
            options.say(str(error))
            continue
        settled = [notice for notice in notices if done.issuperset(notice.urls)]
        queue.acknowledge(settled)
        others = (url for url in sorted(urls) if not any(each.has(url) for each in imports))
        if not foreign and (foreign := next(others, "")):
            options.say(f"notifications of other objects stay in the queue, such as of {foreign}")
        if not settled and not follow:
            return


def _wait(seconds: float, stopped: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not stopped() and (left := end - time.monotonic()) > 0:
        time.sleep(min(0.2, left))


class _BucketImport:
    """The import of what one URL names."""

    def __init__(
        self,
        location: Location,
        progress: Progress,
        sender: Sender,
        options: Options,
        selection: Selection,
        report: Report,
        *,
        lasting: bool,
    ) -> None:
        """`lasting`: errors of objects are reported at once."""
        self._location = location
        self._progress = progress
        self._options = options
        self._how = replace(options, advance=lambda _: None, again=False)
        self._selection = selection
        self._report = report
        self._lasting = lasting
        self._group = ObjectGroup(sender, progress, report)
        self._after = ""
        self._whole = -math.inf  # When all keys were listed last.
        self._failures = Failures(self._complain, lasting=lasting)
        self._done: set[str] | None = None  # URLs of objects of which Kafka has all.
        self._new: set[str] = set()  # Ids of which the progress has nothing in this revision.
        self._revision = progress.revision
        self._broken: dict[str, str] = {}  # Versions by the ids of their objects.
        self._error: InputError | None = None
        if location.query:
            # Earlier versions knew the object without its query: its content tells whether it is this one.
            earlier = progress.entries.get(id_of(options.site, location.url))
            own = id_of(options.site, location.identity_of(""))
            if earlier and own not in progress.entries:
                progress.entries[own] = replace(earlier, id=own, etag="")

    def import_all(self) -> None:
        """Imports all objects. Raises InputError."""
        before = self._report.files
        self._run(self._unknown(listed(self._location, self._selection, stopped=self._options.stopped)))
        if self._report.files == before and not self._report.stopped:
            raise nothing_selected(self._location)
        if self._error:
            raise self._error

    def import_new(self) -> None:
        """Imports the objects that are new since the last call. Raises RefusedError, KafkaError."""
        first, whole = self._whole < 0, time.monotonic() - self._whole >= _WHOLE_SECONDS
        after = "" if whole else self._after
        start = Start()
        try:
            objects = listed(self._location, self._selection, after=after, stopped=self._options.stopped)
            self._run(self._unknown(objects, start, count=first))
        except RefusedError:
            raise
        except InputError as error:
            self._complain(error)
            return
        self._after = (start.after or after) if start.sorted else ""
        self._whole = time.monotonic() if whole else self._whole

    def import_noticed(self, urls: Iterable[str]) -> set[str]:
        """Imports those of these objects that belong here. Returns the URLs of those that are done."""
        now = datetime.now(UTC)
        keys = (url.removeprefix(f"{self._location.root}/") for url in urls if self.has(url))
        objects = [Listed(key, 1, "", now) for key in keys]
        wanted = [each for each in objects if self._selection.has(each, self._location.path)]
        self._done = {self._url_of(each) for each in objects} - {self._url_of(each) for each in wanted}
        self._run(wanted)
        return self._done

    def has(self, url: str) -> bool:
        """Whether an object belongs here."""
        return url.startswith(self._location.url)

    def _unknown(
        self, objects: Iterable[Listed], start: Start | None = None, *, count: bool = True
    ) -> Iterator[Listed]:
        """The objects whose present version is not imported. With `count`, the others are reported."""
        for each in objects:
            entry_id = self._id_of(each)
            entry = self._progress.entries.get(entry_id)
            known = entry is not None and entry.etag == each.etag and not self._options.again
            if start:
                known = known or self._broken.get(entry_id) == each.etag
                start.see(each, finished=known)
            if not entry:
                self._new.add(entry_id)
            if not known:
                yield each
            elif entry and count:
                self._report.files += 1
                self._report.known += lines_of(entry)

    def _run(self, objects: Iterable[Listed]) -> None:
        stopped = self._options.stopped
        while True:
            try:
                for each in fetched(self._location, objects, stopped):
                    with each.file or nullcontext():
                        self._take(each)
            except InputError:
                # Objects that were read are complete. A later call would add those that still wait once more.
                self._group.flush()
                raise
            self._group.flush()
            self._failures.settle()
            lost, self._group.lost = self._group.lost, {}
            if self._done:
                self._done.difference_update(map(self._url_of, lost.values()))
            if stopped():
                self._report.stopped = True
            if stopped() or not lost:
                return
            self._report.files -= len(lost)
            objects = self._unknown(list(lost.values()))

    def _take(self, item: Fetched) -> None:
        """Imports what was read of an object."""
        if item.error and self._options.stopped():
            return
        version, entry_id = item.version, self._id_of(item.version)
        self._report.files += 1
        if item.file is None or item.error:
            self._fail(version, item.error or InputError(f"{self._url_of(version)} was not read"))
            return
        self._failures.passed()
        self._options.advance(version.size)
        known = self._known(entry_id)
        if self._options.again:
            self._progress.entries.pop(entry_id, None)
            known = None
        source = spooled(item.file, self._url_of(version))
        try:
            if known and known.etag == version.etag:
                self._report.known += lines_of(known)
            elif not self._import(source, version, known):
                return
        except LostError:
            return
        except InputError as error:
            self._fail(version, error)
            return
        if self._done is not None:
            self._done.add(source.name)

    def _known(self, entry_id: str) -> Entry | None:
        """The part of an object that Kafka has. A new one is looked up again only after commits of another import."""
        if self._revision != self._progress.revision:
            self._revision, self._new = self._progress.revision, set()
        if entry_id in self._new:
            self._new.remove(entry_id)
            return None
        return self._progress.entries.get(entry_id)

    def _import(self, source: Spooled, version: Listed, known: Entry | None) -> bool:
        """Imports the content of an object of which Kafka has `known`; false if it was stopped in the middle."""
        entry_id = self._id_of(version)
        self._group.begin(entry_id, known, version)
        entries = [known] if known else []
        work = start_file(source, self._group.add, entries, self._how, entry_id=entry_id)
        if work is None:
            assert known is not None
            self._options.say(f"{source.name}: a longer version was imported before, nothing added")
            self._group.finish(entry_id, version.etag, lambda: known)
            return True
        with work.reader:
            if known and known.offset and not work.splitter.offset:
                self._options.say(
                    f"{source.name} has other content than the version that was imported before; its lines are added"
                )
                self._progress.entries.pop(entry_id, None)
                self._group.begin(entry_id, None, version)
            self._report.known += work.committed_lines
            part = Report()
            drain(work, self._how, part, complete=True)
            self._report.comments += part.comments
            self._report.nuls += part.nuls
            if part.stopped:
                return False
            self._group.finish(entry_id, version.etag, lambda: work.entry)
            return True

    def _fail(self, version: Listed, error: InputError) -> None:
        """Reports an object that cannot be read. Raises the error if the store is at fault."""
        if isinstance(error, MissingError):
            self._options.say(f"{self._url_of(version)} was deleted before it was read")
            self._report.files -= 1
            if self._done is not None:
                self._done.add(self._url_of(version))
            return
        if not isinstance(error, PassingError) and len(self._broken) < _MOST_BROKEN:
            self._broken[self._id_of(version)] = version.etag
        self._failures.add(error)

    def _complain(self, error: InputError) -> None:
        """Says an error; `import_all` raises the last one instead."""
        text, before = str(error), str(self._error or "")
        if self._lasting and text != before:
            self._options.say(text)
        if not self._lasting and before:
            self._options.say(before)
        self._error = error

    def _url_of(self, version: Listed) -> str:
        return self._location.url_of(version.key)

    def _id_of(self, version: Listed) -> str:
        return id_of(self._options.site, self._location.identity_of(version.key))
