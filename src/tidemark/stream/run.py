"""The runtime: checks queries before they start, runs and monitors them on a home, and stops them between batches."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from py4j.protocol import Py4JError

from tidemark.contract.quality_tables import INVENTORY
from tidemark.contract.table import Table
from tidemark.home import Home
from tidemark.loops import Side
from tidemark.signals import stop_signals
from tidemark.store.sizes import sizes
from tidemark.stream import inventory, lock
from tidemark.stream.checkpoint import clear_unfinished, require_sound
from tidemark.stream.endpoint import serving
from tidemark.stream.failures import explain
from tidemark.stream.flow import Flow
from tidemark.stream.metrics import Metrics
from tidemark.stream.progress import Progress
from tidemark.stream.query import Query, Runner
from tidemark.stream.schema_check import require_fitting
from tidemark.stream.table_state import TableState, incomplete, record_states

_POLL_SECONDS = 0.2
# While the next query waits for the end of one.
_QUICK_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 3.0
log = logging.getLogger("tidemark.stream")


def run(
    home: Home,
    flows: Sequence[Flow],
    *,
    once: bool,
    beside: Sequence[Side] = (),
    metrics: Metrics | None = None,
    remade: Sequence[Table] = (),
    require_whole: Callable[[], None] = lambda: None,
) -> bool:
    """Runs the flows of a home until a signal or a side ends the run; with `once`, until they have caught up. Returns
    whether a signal has ended it.

    The other arguments are those of `Runtime` and `Runtime.run`. Raises TidemarkError as soon as a flow fails.
    """
    queries = []
    for flow in flows:
        warming = threading.Thread(target=flow.warm_up, args=(home,), daemon=True)
        warming.start()
        queries.append(replace(flow.query(home), await_warm=warming.join))
    runtime = Runtime(home, queries, metrics=metrics, remade=remade, require_whole=require_whole)
    for flow in flows:
        if flow.followers:  # new ones, and those that a kill has left behind
            with lock.batch(home.settings, patient=flow.patient):
                flow.catch_up(home)
    with stop_signals() as stopping:
        if once:
            runtime.run_once(stopping)
        else:
            runtime.run(stopping, beside=beside)
        return stopping.signalled


class Runtime:
    """The queries of one process on a home.

    Creates what is missing of its tables, and raises TableError where a table or a checkpoint does not fit.
    `remade` are tables that are rebuilt right afterwards: their present rows need not fit this version.
    `require_whole` raises TableError where the tables have lost commits. `record` names the process in the home's
    run directory.
    """

    def __init__(
        self,
        home: Home,
        queries: Sequence[Query],
        *,
        record: str = "pipeline",
        metrics: Metrics | None = None,
        remade: Sequence[Table] = (),
        require_whole: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings = home.settings
        lakehouse, store, tables = home.lakehouse, home.store, home.tables
        for table in tables:
            store.ensure(table, table.reader_properties(settings))
        fitting = home.only([table for table in tables if table not in remade])
        require_fitting(fitting, {query.place: query.version for query in queries})
        record_states(
            lakehouse,
            {query.name: TableState(elsewhere=query.elsewhere) for query in queries if query.elsewhere},
        )
        for query in queries:
            checkpoint = query.checkpoint(lakehouse)
            clear_unfinished(checkpoint)
            if not query.own_positions:
                require_sound(query.name, checkpoint, store, tables, query.commits)
        require_whole()
        if INVENTORY in tables:
            _announce(home, remade)
        lags = {query.name: partial(query.lag, query.checkpoint(lakehouse)) for query in queries}
        progress = self._progress = Progress(
            settings, store, lags, sizes(lakehouse, tables), metrics, record=record
        )
        self._runners = [
            Runner(query, home, started=progress.watch, batch_done=progress.batch_done) for query in queries
        ]

    def run_once(self, stopping: threading.Event) -> None:
        """Runs the queries one after the other, because each reads the results of the previous one, until they have
        caught up or `stopping` is set."""
        self._progress.start()
        for runner in self._runners[1:]:
            threading.Thread(target=runner.warm_up, daemon=True).start()
        try:
            for runner in self._runners:
                runner.start(once=True)
                self._watch([runner], stopping, poll_seconds=_QUICK_POLL_SECONDS)
        finally:
            self._progress.stop()

    def run(
        self,
        stopping: threading.Event,
        *,
        beside: Sequence[Side] = (),
        finish: Callable[[], bool] = lambda: False,
    ) -> None:
        """Runs the queries until `stopping` is set, or until they have caught up after `finish` has said so.

        `beside` are functions that run in threads of their own until their event is set.
        """
        with (
            self.started(),
            serving(
                self._settings.watching, self._progress.metrics.registry, self._progress.health
            ) as endpoint,
        ):
            self._progress.running(endpoint)
            for side in beside:
                threading.Thread(target=side, args=(stopping,), daemon=True).start()
            self._watch(self._runners, stopping, finish)

    @contextmanager
    def started(self) -> Iterator[None]:
        """Runs every query at least until the block ends."""
        self._progress.start()
        try:
            for runner in self._runners:
                runner.start(once=False)
            yield
        finally:
            self._stop_between_batches()
            self._progress.stop()

    def settled(self) -> bool:
        """Whether every query has finished a batch since its start, or has found nothing to read."""
        return all(runner.settled for runner in self._runners)

    def catch_up(self) -> None:
        """Returns when the current input of the sources is processed. A query may read tables of earlier ones."""
        for runner in self._runners:
            try:
                runner.catch_up()
            except Exception:
                self._raise_failure([runner])
                raise

    def _watch(
        self,
        runners: Sequence[Runner],
        stopping: threading.Event,
        finish: Callable[[], bool] = lambda: False,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        """Waits for the end of the queries, or for the signal to stop them between two batches."""
        while not stopping.wait(poll_seconds) and any(
            runner.in_batch or runner.query.isActive for runner in runners
        ):
            self._raise_failure([runner for runner in runners if not runner.in_batch])
            for runner in runners:
                runner.resize(stopping)
            if finish():
                self.catch_up()
                return
        if stopping.is_set():
            self._stop_between_batches()
        else:
            self._raise_failure(runners)

    def _stop_between_batches(self) -> None:
        """Waits for the current batches; one that takes too long is interrupted, and runs again next time."""
        running = [runner for runner in self._runners if runner.active]
        if not running:
            return

        def stop() -> None:
            for runner in running:
                runner.end()
            # Released before the queries are stopped, because Spark waits for a batch that waits for the lock.
            with lock.at_rest(self._settings):
                pass
            _stop(running)

        waiting = threading.Thread(target=stop, daemon=True)
        waiting.start()
        waiting.join(timeout=_PATIENCE_SECONDS)
        _stop(running)

    def _raise_failure(self, runners: Sequence[Runner]) -> None:
        for runner in runners:
            failure = runner.query.exception()
            if failure is not None:
                raise explain(runner.definition.name, runner.failure or failure, self._settings)


def _announce(home: Home, remade: Sequence[Table]) -> None:
    """Records which tables lack their history. A catalog's tables are not filled beside the flows."""
    missing = incomplete(home.lakehouse)
    inventory.announce(home, missing)
    for name in sorted(set(missing) - {table.name for table in remade}):
        if home.lakehouse.can.files is None:
            log.warning("%s lacks its history: stop the pipeline and run `tidemark rebuild %s`", name, name)


def _stop(runners: Sequence[Runner]) -> None:
    # A signal to the whole process group ends the JVM first. Then nothing is left to stop.
    with contextlib.suppress(Py4JError, ConnectionError):
        for runner in runners:
            if runner.query.isActive:
                runner.query.stop()
