"""One look at log files: reads them into the tables of a home, and shows the figures as they fill in."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from tidemark.cli.summary import COLUMNS, NAMES, rows
from tidemark.errors import InputError, PlatformError
from tidemark.importing.sources import Spooled, matching, states_of
from tidemark.local import dashboard
from tidemark.local.parts import Launch, dashboard_part
from tidemark.local.status_lines import StatusLines
from tidemark.local.supervisor import Supervisor
from tidemark.local.view import QUIET_SECONDS, Kept
from tidemark.objects.store import public
from tidemark.settings import Settings
from tidemark.signals import stop_signals

if TYPE_CHECKING:
    from tidemark.service.view import HomeReader, Workers

TICK_SECONDS = 0.1
GROWTH_SECONDS = 1.0
STOP_SECONDS = 8.0
# The dashboard starts while lines are processed, at a lower priority.
NICE = 10


@dataclass(frozen=True)
class Given:
    """The input: `patterns` as the user wrote them, the `paths` that they stand for, and the lines' site and format.

    `objects` gives the content of the objects that the patterns stand for, if they are URLs; it gets what to call with
    messages, and whether to stop.
    """

    patterns: Sequence[str]
    paths: Sequence[str]
    site: str
    format: str
    objects: Callable[[Callable[[str], None], Callable[[], bool]], Iterator[Spooled]] | None = None

    @property
    def names(self) -> list[str]:
        """The paths, or the URLs without what may be credentials."""
        return list(self.paths) or [public(each) for each in self.patterns]


@dataclass(frozen=True)
class Output:
    """The output of a look: `as_json` one object, else the summary. Without a `dashboard` it ends with the figures.

    `opened` gets the dashboard's address once it has something to show; `view_of` is the page's path there.
    """

    as_json: bool
    dashboard: bool
    opened: Callable[[str], None] | None
    view_of: str


class Look:
    """Runs until the figures are printed, or with a dashboard until a signal.

    A thread reads the files and what they gain, another one the figures, and the main thread keeps the dashboard
    running and writes to the terminal. `workers` are needed unless the files are unchanged.
    """

    def __init__(
        self, settings: Settings, home: Kept, given: Given, output: Output, workers: Workers | None = None
    ) -> None:
        self._settings = settings
        self._home = home
        self._given = given
        self._output = output
        self._workers = workers
        self._follows = output.dashboard
        self._stopping = threading.Event()
        self._exact = home.unchanged
        # Lines that the files gain wait until exact figures are counted, which read several tables.
        self._growth = threading.Lock()
        self._figures: dict[str, Any] = {}
        # The figures show the tables as of the last commit, all lines included.
        self._shows_exact = False
        self._news = threading.Event()
        self._news.set()
        self._error: BaseException | None = None
        self._messages: SimpleQueue[str] = SimpleQueue()
        self._started = time.monotonic()
        self._read_bytes = 0
        self._bytes = sum(size for size, _ in home.record["files"].values())
        self._exact_after = 0.0

    def run(self) -> int:
        """Returns the exit status: 0, or 130 if a signal came before the figures were exact. Raises TidemarkError."""
        out = sys.stderr if self._output.as_json else sys.stdout
        lines = StatusLines(NAMES, out)
        supervisor = Supervisor(lines)
        works = (self._keep_reading, self._keep_counting)
        threads = [threading.Thread(target=self._work, args=(work,), daemon=True) for work in works]
        with stop_signals(signal.SIGHUP) as self._stopping:
            try:
                for thread in threads:
                    thread.start()
                self._watch(supervisor, lines, shown=not self._output.as_json or out.isatty())
                if self._output.as_json and self._exact_after:
                    files = self._given.names
                    sys.stdout.write(json.dumps({"files": files, **self._figures}, indent=2) + "\n")
                    sys.stdout.flush()
            finally:
                self._stopping.set()
                self._news.set()
                for thread in threads:
                    thread.join(STOP_SECONDS)
                supervisor.stop()
        return 0 if self._exact_after else 130

    def _watch(self, supervisor: Supervisor, lines: StatusLines, *, shown: bool) -> None:
        if self._follows and find_spec("streamlit") is None:
            lines.say("No dashboard: Streamlit is not installed (pip install 'tidemark[dashboard]').")
            self._follows = False
        if self._follows:
            part = dashboard_part(self._settings, Launch.by_environment(self._settings), stop_order=1)
            supervisor.start(replace(part, command=["nice", "-n", str(NICE), *part.command]))
        opened = self._output.opened
        ended = False
        while not ended:
            ended = self._stopping.wait(TICK_SECONDS) or (self._shows_exact and not self._follows)
            if not supervisor.tend():
                raise PlatformError("the dashboard of this view has failed", f"See {self._settings.logs}.")
            while (message := self._message()) is not None:
                lines.say(message)
            if self._error is not None:
                raise self._error
            address = (supervisor.is_up("dashboard") and dashboard.url(self._settings)) or ""
            if shown:
                lines.show(
                    rows(
                        self._log_row(), self._figures, self._dashboard_row(address), exact=self._shows_exact
                    )
                )
            if address and self._shows_exact and opened is not None:
                opened(address)
                opened = None

    def _dashboard_row(self, address: str) -> str:
        if not self._follows:
            return "none"
        return f"{address}{self._output.view_of} (Ctrl-C stops)" if address else ""

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # raised again by the main thread
            self._error = error

    def _message(self) -> str | None:
        with suppress(Empty):
            return self._messages.get_nowait()
        return None

    def _keep_reading(self) -> None:
        with ExitStack() as stack:
            seen, unfinished = self._home.record["files"], False
            reader: HomeReader | None = None
            if self._given.objects:
                reader = self._reader(stack)
                reader.read_objects(self._given.objects(self._messages.put, self._stopping.is_set))
                self._exact = not self._stopping.is_set()
                self._news.set()
                return
            if not self._home.unchanged:
                reader = self._reader(stack)
                seen, unfinished = reader.read(self._given.paths)
                if unfinished and not self._follows:
                    self._stopping.wait(QUIET_SECONDS)
                    seen, _ = reader.read(self._given.paths)
                self._exact = not self._stopping.is_set()
                self._news.set()
            while self._follows and not self._stopping.wait(GROWTH_SECONDS):
                paths = [
                    str(Path(path).resolve())
                    for pattern in self._given.patterns
                    for path in matching(pattern)
                ]
                states = states_of(paths)
                if states != seen or unfinished:
                    reader = reader or self._reader(stack)
                    with self._growth:
                        self._exact = False
                        seen, unfinished = reader.read(paths)
                        self._exact = not self._stopping.is_set()
                    self._news.set()

    def _reader(self, stack: ExitStack) -> HomeReader:
        from tidemark.service import view  # imports much, which unchanged files do not need

        workers = self._workers or stack.enter_context(view.workers_for(self._settings, 0))
        notices = view.Notices(self._messages.put, self._advance, self._news.set, self._stopping.is_set)
        reader = view.HomeReader(
            self._settings,
            self._home,
            workers,
            notices,
            site=self._given.site,
            format=self._given.format,
            last_chance=not self._follows,
        )
        stack.callback(reader.close)
        return reader

    def _advance(self, size: int) -> None:
        self._read_bytes += size

    def _keep_counting(self) -> None:
        """Reads the figures after each commit; once they were exact, and for JSON, only when they are so again."""
        # Takes a while, during which the lines are read already.
        from tidemark.figures.reader_delta import DeltaReader
        from tidemark.figures.rows import Rows
        from tidemark.figures.totals import totals

        tables = Rows(DeltaReader(self._settings.home))
        while self._news.wait() and not self._stopping.is_set():
            self._news.clear()
            with self._growth:
                exact = self._exact
                if not exact and (self._output.as_json or self._shows_exact):
                    continue
                figures = totals(tables)
            if exact and figures["rejected"] and not figures["requests"]:
                raise _nothing_read(figures)
            self._figures = figures
            if exact:
                self._exact_after = self._exact_after or time.monotonic() - self._started
                self._shows_exact = True

    def _log_row(self) -> tuple[str, str]:
        """State and text of the first line: what happens, or what was read."""
        passed = time.monotonic() - self._started
        if self._shows_exact:
            first, newest = self._figures["first_event_time"], self._figures["newest_event_time"]
            between = f", {_minute(first)} to {_minute(newest)} UTC" if first else ""
            return "exact", f"{self._figures['lines']:,} lines in {self._exact_after:.1f} s{between}"
        if self._exact:
            return "counting", f"read, counting ({passed:.0f} s)"
        done = min(self._read_bytes, self._bytes) if self._bytes else self._read_bytes
        return "reading", tqdm.format_meter(
            done, self._bytes or None, passed, ncols=COLUMNS - 11, unit="B", unit_scale=True
        )


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")


def _nothing_read(figures: dict[str, Any]) -> InputError:
    broken = ", ".join(f"{name} ({number:,})" for name, number in [*figures["reasons"].items()][:3])
    return InputError(
        f"none of the {figures['rejected']:,} lines is a valid log line: {broken}",
        "`tidemark explain FILE` shows what they lack, docs/formats.md which formats are read.",
    )
