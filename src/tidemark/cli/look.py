"""One look at log files: the processes that it needs, the import, and the figures as they become exact."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tqdm import tqdm

from tidemark.cli.figure_lines import NAMES, rows
from tidemark.errors import InputError, PlatformError
from tidemark.importing.file_import import Report
from tidemark.importing.importer import Options, import_files
from tidemark.importing.progress import Progress
from tidemark.importing.sources import matching, states_of
from tidemark.local import broker, dashboard
from tidemark.local.parts import Launch, broker_part, dashboard_part, pipeline_part
from tidemark.local.process import wait_until
from tidemark.local.records import live_record
from tidemark.local.status_lines import StatusLines
from tidemark.local.supervisor import Supervisor
from tidemark.local.view import Kept
from tidemark.settings import Settings
from tidemark.settings.sections import KafkaSettings
from tidemark.signals import stop_signals

TICK_SECONDS = 0.1
GROWTH_SECONDS = 1.0
START_SECONDS = 60.0
# The dashboard starts when the figures are exact, because it takes CPU time from the pipeline, but not later than this.
DASHBOARD_SECONDS = 20.0
# A file that was not written to for this long is complete, its last line too.
QUIET_SECONDS = 2.0
STOP_SECONDS = 8.0
NOT, PARTLY, EXACT = (False, False), (True, False), (True, True)


@dataclass(frozen=True)
class Given:
    """The input: `patterns` as the user wrote them, the `paths` that they stand for, and the lines' site and format."""

    patterns: Sequence[str]
    paths: Sequence[str]
    site: str
    format: str


class Look:
    """Runs until the figures are printed as JSON, or until a signal.

    A thread imports the files and what they gain, another one reads the figures, and the main thread keeps the
    processes running and writes to the terminal. `opened` gets the dashboard's address once it has something to show.
    """

    def __init__(
        self,
        settings: Settings,
        home: Kept,
        given: Given,
        *,
        view_of: str,
        as_json: bool,
        opened: Callable[[str], None] | None,
    ) -> None:
        self._settings = settings
        self._home = home
        self._given = given
        self._view_of = view_of
        self._as_json = as_json
        self._opened = opened
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._pipeline_wanted = not home.unchanged
        self._imported_at: float | None = None
        self._whole = True
        self._figures: dict[str, Any] = {}
        self._exact = NOT
        self._error: BaseException | None = None
        self._messages: SimpleQueue[str] = SimpleQueue()
        self._started = time.monotonic()
        self._importing = 0.0
        self._read_bytes = 0
        self._bytes = sum(size for size, _ in home.record["files"].values())
        self._exact_after = 0.0

    def run(self) -> int:
        """Returns the exit status: 0, or 130 if a signal came before the figures were exact. Raises TidemarkError."""
        out = sys.stderr if self._as_json else sys.stdout
        lines = StatusLines(NAMES, out)
        supervisor = Supervisor(lines)
        works = (self._keep_importing, self._keep_counting)
        threads = [threading.Thread(target=self._work, args=(work,), daemon=True) for work in works]
        with stop_signals(signal.SIGHUP) as self._stopping:
            try:
                for thread in threads:
                    thread.start()
                self._watch(supervisor, lines, shown=not self._as_json or out.isatty())
                if self._as_json and self._exact_after:
                    files = list(self._given.paths)
                    sys.stdout.write(json.dumps({"files": files, **self._figures}, indent=2) + "\n")
                    sys.stdout.flush()
            finally:
                self._stopping.set()
                for thread in threads:
                    thread.join(STOP_SECONDS)
                supervisor.stop()
        return 0 if self._exact_after else 130

    def _watch(self, supervisor: Supervisor, lines: StatusLines, *, shown: bool) -> None:
        launch = Launch.by_environment(self._settings)
        running = False
        awaited = not self._as_json
        if awaited and find_spec("streamlit") is None:
            lines.say("No dashboard: Streamlit is not installed (pip install 'tidemark[dashboard]').")
            awaited = False
        while not self._stopping.wait(TICK_SECONDS):
            if self._pipeline_wanted and not running:
                supervisor.start(
                    broker_part(self._settings, launch, stop_order=3),
                    pipeline_part(self._settings, launch, stop_order=1, wait=START_SECONDS),
                )
                running = True
            if awaited and (self._exact_after or time.monotonic() - self._started > DASHBOARD_SECONDS):
                supervisor.start(dashboard_part(self._settings, launch, stop_order=2))
                awaited = False
            if not supervisor.tend():
                raise PlatformError(
                    "a process of this view has failed",
                    f"Its log is in {self._settings.logs}. `tidemark view --clear` lets the next view start afresh.",
                )
            while (message := self._message()) is not None:
                lines.say(message)
            if self._error is not None:
                raise self._error
            address = (supervisor.is_up("dashboard") and dashboard.url(self._settings)) or ""
            if shown:
                lines.show(
                    rows(self._log_row(), self._figures, self._exact, address and address + self._view_of)
                )
            if self._as_json and self._exact_after:
                return
            if address and self._figures.get("lines") and self._opened is not None:
                self._opened(address)
                self._opened = None

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # raised again by the main thread
            self._error = error

    def _message(self) -> str | None:
        try:
            return self._messages.get_nowait()
        except Empty:
            return None

    def _keep_importing(self) -> None:
        seen = self._home.record["files"]
        unfinished = False
        if not self._home.unchanged:
            if self._as_json:  # then there is no second chance for a last line that is being written
                self._stopping.wait(min(QUIET_SECONDS, QUIET_SECONDS - _age(seen)))
            seen, unfinished = self._import(self._given.paths)
        while not self._as_json and not self._stopping.wait(GROWTH_SECONDS):
            paths = [
                str(Path(path).resolve()) for pattern in self._given.patterns for path in matching(pattern)
            ]
            states = states_of(paths)
            if states != seen or (unfinished and _age(states) > QUIET_SECONDS):
                self._pipeline_wanted = True
                seen, unfinished = self._import(paths)

    def _import(self, paths: Sequence[str]) -> tuple[dict[str, list[int]], bool]:
        """Imports the files. Returns their states before that, and whether a last line was left out because its file
        has just been written to."""
        with self._lock:
            self._imported_at = None
            self._home.note(entries=None, exact=False)
        settings = broker.located(self._settings).kafka
        wait_until(
            lambda: self._stopping.is_set() or broker.answers(settings.bootstrap_servers, 0.5), START_SECONDS
        )
        self._importing, self._read_bytes = time.monotonic(), 0
        states = states_of(paths)
        fresh = [path for path, state in states.items() if _age({path: state}) < QUIET_SECONDS]
        report, troubles = Report(), []
        for some, complete in ([path for path in paths if path not in fresh], True), (fresh, False):
            options = Options(
                settings, site=self._given.site, format=self._given.format, complete=complete,
                say=self._messages.put, stopped=self._stopping.is_set, advance=self._advance,
            )  # fmt: skip
            try:
                if some:
                    import_files(some, options, report)
            except InputError as error:
                troubles.append(error)
        self._note_entries(settings, states)
        if troubles and (self._as_json or not report.added + report.known):
            raise troubles[0]
        for trouble in troubles:
            self._messages.put(str(trouble))
        with self._lock:
            self._whole = not troubles
            self._imported_at = None if report.stopped else time.time()
        return states, bool(report.unfinished)

    def _note_entries(self, settings: KafkaSettings, states: dict[str, list[int]]) -> None:
        progress = Progress(settings)
        try:
            self._home.note(files=states, entries=[asdict(entry) for entry in progress.entries.values()])
        finally:
            progress.close()

    def _advance(self, size: int) -> None:
        self._read_bytes += size

    def _keep_counting(self) -> None:
        """Reads the figures whenever the tables have changed; as JSON only when they are exact."""
        # Takes a while, during which the other processes start already.
        from tidemark.figures import totals
        from tidemark.figures.reader_delta import DeltaReader
        from tidemark.figures.rows import Direct

        tables = Direct(DeltaReader(self._settings.home))
        commits = [0, 0]
        while True:
            stamp, exact = self._reached()
            now = [self._commits("quality", "accounts"), self._commits("silver", "sessions")]
            if not self._as_json or exact == EXACT:
                found = dict(self._figures)
                if now[0] != commits[0] or exact[0] != self._exact[0]:
                    found |= totals.of_lines(tables)
                if now[1] != commits[1] or exact[1] != self._exact[1]:
                    found |= totals.of_activity(tables)
                commits, self._figures = now, found
            if exact[0] and self._figures.get("rejected") and not self._figures["requests"]:
                raise _nothing_read(self._figures["rejected"], totals.reasons(tables))
            with self._lock:
                if exact == EXACT and self._exact != EXACT and self._whole and stamp == self._imported_at:
                    self._home.note(exact=True)
            if exact == EXACT:
                self._exact_after = self._exact_after or time.monotonic() - self._started
            self._exact = exact
            if self._stopping.wait(2 * TICK_SECONDS):
                return

    def _reached(self) -> tuple[float | None, tuple[bool, bool]]:
        """When the last import ended, and whether the figures of lines, and of activity, include all of its lines."""
        if not self._pipeline_wanted:
            return None, EXACT
        stamp = self._imported_at
        record = live_record(self._settings.run_directory / "pipeline.json") or {}
        if stamp is None or record.get("looked_at", 0.0) < stamp:
            return stamp, NOT
        lags = [record["flows"][name]["lag"] for name in ("requests", "activity")]
        return stamp, EXACT if lags == [0, 0] else PARTLY if lags[0] == 0 else NOT

    def _commits(self, layer: str, table: str) -> int:
        log = self._settings.tables / layer / table / "_delta_log"
        return sum(1 for _ in log.iterdir()) if log.is_dir() else 0

    def _log_row(self) -> tuple[str, str]:
        """State and text of the first line: what happens, or what was read."""
        now = time.monotonic()
        if self._exact == EXACT:
            first, newest = self._figures["first_event_time"], self._figures["newest_event_time"]
            between = f", {first[:19]} to {newest[:19]} UTC" if first else ""
            return (
                "exact",
                f"{self._figures['lines']:,} lines{between}, exact after {self._exact_after:.1f} s",
            )
        if self._imported_at is not None:
            return "counting", f"imported, counting ({now - self._started:.0f} s)"
        if self._importing:
            done = min(self._read_bytes, self._bytes) if self._bytes else self._read_bytes
            passed = now - self._importing
            meter = tqdm.format_meter(done, self._bytes or None, passed, ncols=60, unit="B", unit_scale=True)
            return "importing", f"importing {meter}"
        return "starting", f"starting ({now - self._started:.0f} s)"


def _age(states: dict[str, list[int]]) -> float:
    """Seconds since the newest of these files was written to."""
    return min((abs(time.time() - changed / 1e9) for _, changed in states.values()), default=QUIET_SECONDS)


def _nothing_read(lines: int, reasons: Sequence[tuple[str, int]]) -> InputError:
    broken = ", ".join(f"{name} ({number:,})" for name, number in reasons)
    return InputError(
        f"none of the {lines:,} lines is a valid log line: {broken}",
        "`tidemark explain FILE` shows what they lack, docs/formats.md which formats are read.",
    )
