"""Keeps the tables of a view's home up to date with log files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from tidemark.engine.tasks import load
from tidemark.errors import InputError
from tidemark.importing.file_import import ReadOptions, Report
from tidemark.importing.lines import Block
from tidemark.importing.sources import Spooled, states_of
from tidemark.local.view import QUIET_SECONDS, Kept
from tidemark.local.workers import usual_number, worker_pool
from tidemark.operate.quality.proxies import proxied
from tidemark.pipeline import Pipeline
from tidemark.service.files import FileRun, headers_of, records_of
from tidemark.settings import Settings

# Fewer bytes are read before processes have started.
LEAST_BYTES = 4_000_000
# A line for which all code and data are loaded.
_EXAMPLE = (
    b'203.0.113.7 - - [22/Nov/2026:10:00:00 +0000] "GET /?q=a HTTP/1.1" 200 5 "https://www.google.com/"'
    b' "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"'
)
_PROXY_REMEDY = "log X-Forwarded-For, see docs/formats.md, 'Client behind proxies'"


@dataclass(frozen=True)
class Workers:
    """Processes or threads that work on parts of lines, and their number."""

    pool: Executor
    number: int


@contextmanager
def workers_for(settings: Settings, size: int) -> Iterator[Workers]:
    """Workers for so many bytes of lines. Call it before any thread is started."""
    number = usual_number() if size > LEAST_BYTES else 1
    pipeline = Pipeline.of(settings)
    example = records_of([Block([_EXAMPLE])], headers_of())
    lines = pipeline.lines(example, topic="", first=0, arrived=datetime.now(UTC))
    begin = partial(load, pipeline.requests(pipeline.validation()).work, lines)
    with worker_pool(number, begin) as pool:
        yield Workers(pool, number)


@dataclass(frozen=True)
class Notices:
    """Functions that a reader calls: `say` with messages, `advance` with the number of input bytes read, `committed`
    once the tables have more lines, and `stopped` to know whether to stop."""

    say: Callable[[str], None]
    advance: Callable[[int], None]
    committed: Callable[[], None]
    stopped: Callable[[], bool]


class HomeReader:
    """Reads files into the tables of a kept home. `last_chance`: a file that cannot be read to its end is an error even
    if others can."""

    def __init__(
        self,
        settings: Settings,
        home: Kept,
        workers: Workers,
        notices: Notices,
        *,
        site: str,
        format: str,
        last_chance: bool,
    ) -> None:
        self._home = home
        self._notices = notices
        self._last_chance = last_chance
        self._pipeline = Pipeline.of(settings)
        self._proxies: set[str] = set()
        self._run = FileRun(
            self._pipeline, workers.pool, workers.number,
            site=site, format=format, committed=notices.committed,
        )  # fmt: skip
        self._started = False

    def read(self, paths: Sequence[str]) -> tuple[dict[str, list[int]], bool]:
        """Reads what the tables do not have. Returns the states of the files before that, and whether a last line was
        left out because its file has just been written to. Raises InputError where nothing could be read."""
        self._start(paths)
        states = states_of(paths)
        fresh = [path for path, state in states.items() if age({path: state}) < QUIET_SECONDS]
        report, errors = Report(), list[InputError]()
        for some, complete in ([path for path in paths if path not in fresh], True), (fresh, False):
            errors += self._run.read(some, self._how(complete=complete), report) if some else []
        self._settle(errors, report)
        self._home.note(files=states, exact=not (errors or report.stopped or report.unfinished))
        return states, bool(report.unfinished)

    def read_objects(self, sources: Iterable[Spooled]) -> None:
        """Reads objects, which cannot be read again. Raises InputError where nothing could be read."""
        self._start([])
        report = Report()
        self._settle(self._run.read_objects(sources, self._how(complete=True), report), report)

    def close(self) -> None:
        self._run.close()

    def _start(self, paths: Sequence[str]) -> None:
        self._home.note(exact=False)
        if not self._started:
            self._run.start(paths)
            self._started = True

    def _how(self, *, complete: bool) -> ReadOptions:
        return ReadOptions(
            complete=complete, say=self._notices.say,
            stopped=self._notices.stopped, advance=self._notices.advance,
        )  # fmt: skip

    def _settle(self, errors: Sequence[InputError], report: Report) -> None:
        if errors and (self._last_chance or not report.added + report.known):
            raise errors[0]
        for error in errors:
            self._notices.say(str(error))
        if report.added:
            self._name_proxies()

    def _name_proxies(self) -> None:
        """Says once for which sites a proxy stands for the visitors: nobody runs the expectations of such a home."""
        store, table = self._pipeline.store, self._pipeline.graph.accepted
        proxies = set(proxied(store, table, store.version(table), datetime.now(UTC)))
        for text in sorted(proxies - self._proxies):
            self._notices.say(f"a proxy stands for the visitors, {text}: {_PROXY_REMEDY}")
        self._proxies |= proxies


def age(states: dict[str, list[int]]) -> float:
    """Seconds since the newest of these files was written to."""
    return min((abs(time.time() - changed / 1e9) for _, changed in states.values()), default=QUIET_SECONDS)
