"""Answers to questions of other programs: remembered, bounded, and as far as the one who asks may see."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tidemark.access.asking import Asking
from tidemark.access.limits import Attempts
from tidemark.api.errors import BusyError, TooLongError, TooManyError
from tidemark.api.watched import RecentVersions, Versions, Watched
from tidemark.figures.declarations import declarations
from tidemark.figures.kept import Keeping
from tidemark.figures.open import open_reader
from tidemark.figures.permitted import ForbiddenError, permitted
from tidemark.figures.question import Question, Values, one, question
from tidemark.figures.reader import Reader
from tidemark.figures.recent import Recent
from tidemark.figures.report import Report, json_text, report
from tidemark.figures.report_specs import LINES
from tidemark.figures.right import Right
from tidemark.figures.rows import Rows
from tidemark.figures.spec import LIMIT
from tidemark.figures.text import csv
from tidemark.figures.unions import UnionCache
from tidemark.priority import give_way

if TYPE_CHECKING:
    import pandas as pd

_NICE = 5
# The usual time of an answer is a moving average over about this many answers.
_RECENT = 8


@dataclass(frozen=True)
class Limits:
    """Bounds of questions: time and rows of one, questions `per_minute` of a key or a person, how many are computed
    `at_once` and how many may wait. A table's new version is looked for every `fresh_seconds`. If a new answer takes
    longer than `patience_seconds`, one of the last `stale_seconds` is given. The remembered answers, and the rows kept
    for other questions, have at most `bytes` each."""

    seconds: float = 10.0
    rows: int = 10_000
    per_minute: int = 60
    at_once: int = 2
    waiting: int = 64
    fresh_seconds: float = 1.0
    patience_seconds: float = 1.0
    stale_seconds: float = 60.0
    bytes: int = 64_000_000


@dataclass
class Answer:
    """An answer: its JSON, the same as text and as a table, and a tag that differs whenever the answer may differ."""

    json: dict[str, Any]
    text: bytes
    table: pd.DataFrame
    tag: str
    versions: Versions
    # When its computation began, of time.monotonic.
    begun: float

    @cached_property
    def csv(self) -> bytes:
        return csv(self.table)


@dataclass(frozen=True)
class _Asked:
    """A question with its key, the most rows of each list, and its last answer, which may be `current`."""

    question: Question
    limit: int
    key: str
    known: Answer | None
    current: bool


@dataclass
class Answers:
    """Answers from the tables of an environment, which are opened with the first question."""

    opened: Callable[[], Reader] = open_reader
    limits: Limits = field(default_factory=Limits)
    _known: OrderedDict[str, Answer] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _running: dict[str, Future[Answer]] = field(default_factory=dict)
    _unions: UnionCache = field(default_factory=UnionCache)
    # Seconds that an answer takes, of late.
    _usual: float = 0.0

    @cached_property
    def reader(self) -> Reader:
        """Questions about other ranges share many rows, such as those of a day's windows."""
        return Keeping(self.opened(), Recent(self.limits.bytes), self._versions)

    @cached_property
    def _versions(self) -> RecentVersions:
        """They have their own reader, because a table of the other reader waits while a query reads it."""
        return RecentVersions(self.opened(), self.limits.fresh_seconds)

    @cached_property
    def _counts(self) -> Attempts:
        return Attempts(most=self.limits.per_minute)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.limits.at_once, "answers", initializer=partial(give_way, _NICE))

    async def answer(self, asking: Asking, name: str, values: Values) -> Answer:
        """The answer to a question in the texts of its parameters.

        Raises TooManyError, UnknownReportError, SelectionError, ForbiddenError, BusyError, TooLongError and ReadError.
        """
        if asking.how != "none":
            wait = self._counts.begin((asking.how, asking.name))
            if wait:
                raise TooManyError(self.limits.per_minute, wait)
        try:
            return await asyncio.wait_for(self._answer(asking, name, values), self.limits.seconds)
        except TimeoutError as error:
            raise TooLongError(self.limits.seconds) from error

    async def _answer(self, asking: Asking, name: str, values: Values) -> Answer:
        until = time.monotonic() + self.limits.seconds
        asked = await asyncio.to_thread(self._asked, asking.right, name, values)
        known = asked.known
        if known is not None and asked.current:
            return known
        if known is not None and time.monotonic() - known.begun > self.limits.stale_seconds:
            known = None
        try:
            running = self._started(asking.right, asked, until)
        except BusyError:
            if known is None:
                raise
            return known
        awaited = asyncio.wrap_future(running)
        # Retrieves the exception even if no caller waits any more; otherwise asyncio logs it as never retrieved.
        awaited.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Others may wait for it, too.
        if known is None:
            return await asyncio.shield(awaited)
        done, _ = await asyncio.wait({awaited}, timeout=self.limits.patience_seconds)
        if not done or isinstance(awaited.exception(), TooLongError):
            return known
        return awaited.result()

    def _started(self, right: Right, asked: _Asked, until: float) -> Future[Answer]:
        """The computation of an answer, which may have begun for somebody else. Raises BusyError if it would have to
        wait until its time is over."""
        running = self._running.get(asked.key)
        if running is None:
            waiting = len(self._running)
            seconds = self._usual * (waiting + 1) / self.limits.at_once
            late = waiting >= self.limits.at_once and seconds > self.limits.seconds
            if late or waiting >= self.limits.waiting:
                raise BusyError(waiting, seconds)
            running = self._pool.submit(self._compute, right, asked, until)
            self._running[asked.key] = running
            running.add_done_callback(lambda _: self._running.pop(asked.key, None))
        return running

    def _asked(self, right: Right, name: str, values: Values) -> _Asked:
        """The question. Raises UnknownReportError, SelectionError and ForbiddenError."""
        wanted, limit = self._question(right, name, values)
        key = _key(right, wanted, limit)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
        versions = {} if known is None else known.versions
        current = all(self._versions.version(table) == version for table, version in versions.items())
        return _Asked(wanted, limit, key, known, current)

    def _question(self, right: Right, name: str, values: Values) -> tuple[Question, int]:
        """The question, and the most rows of each list. Raises UnknownReportError, SelectionError, ForbiddenError."""
        own = dict(values)
        text = one(LIMIT.name, own)
        limit = self.limits.rows if text is None else int(LIMIT.parsed(text, "UTC"))
        if name != LINES.name:
            own.pop(LIMIT.name, None)
            limit = max(0, min(limit, self.limits.rows))
        wanted = question(name, own, declarations(Rows(self._versions.reader), right), ranged=True)
        if not right.at_least(wanted.spec.role):
            raise ForbiddenError(
                f"{wanted.spec.name} is for those with the role {wanted.spec.role}",
                "An admin can change the role.",
            )
        site = wanted.selection.site
        if site is not None and not right.has_site(site):
            raise ForbiddenError(
                f"site: {site!r} is closed to you", f"Open are: {', '.join(sorted(right.sites or ()))}."
            )
        return wanted, limit

    def _compute(self, right: Right, asked: _Asked, until: float) -> Answer:
        begun = time.monotonic()
        watched = Watched(self.reader, self.limits.seconds, until)
        try:
            rows = Rows(permitted(watched, right), self._unions)
            result = limited(report(rows, asked.question), asked.limit)
        finally:
            if begun < until:
                with self._lock:
                    self._usual += (time.monotonic() - begun - self._usual) / _RECENT
        tag = hashlib.sha256(f"{asked.key} {sorted(watched.versions.items())}".encode()).hexdigest()[:32]
        text = json_text(result.json).encode()
        answer = Answer(result.json, text, result.table, tag, watched.versions, begun)
        with self._lock:
            before = self._known.pop(asked.key, None)
            self._known[asked.key] = answer
            self._bytes += _size(answer) - (_size(before) if before else 0)
            while self._bytes > self.limits.bytes and len(self._known) > 1:
                _, oldest = self._known.popitem(last=False)
                self._bytes -= _size(oldest)
        return answer


def limited(result: Report, most: int) -> Report:
    """The report with at most `limit` rows in each list; `limited` in its JSON has the lengths of longer ones."""
    longer = {
        name: len(rows) for name, rows in result.json.items() if isinstance(rows, list) and len(rows) > most
    }
    if not longer:
        return result
    lists = {name: rows[:most] if name in longer else rows for name, rows in result.json.items()}
    about = {name: {"shown": most, "of": length} for name, length in longer.items()}
    return replace(result, json={**lists, "limited": about}, table=result.table.head(most))


def _key(right: Right, wanted: Question, limit: int) -> str:
    """A text that is the same only for questions with the same answer."""
    return f"{right.label} {wanted.spec.name} {limit} {wanted.selection!r} {wanted.parameters!r}"


def _size(answer: Answer) -> int:
    # The objects of the JSON, the table and its CSV take about as much as five times the text.
    return 6 * len(answer.text)
