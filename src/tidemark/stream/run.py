"""The pipeline process: starts the flows, watches them, ends them cleanly."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.settings import Settings
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.sizes import sizes
from tidemark.stream import lock
from tidemark.stream.checkpoint import clear_unfinished, require_sound
from tidemark.stream.endpoint import serving
from tidemark.stream.failures import explain
from tidemark.stream.flow import Flow, Runner
from tidemark.stream.metrics import Metrics
from tidemark.stream.progress import Progress
from tidemark.stream.schema_check import require_fitting

_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 3.0
Side = Callable[[threading.Event], None]


def run(
    spark: SparkSession,
    settings: Settings,
    lakehouse: Lakehouse,
    store: Store,
    tables: Sequence[Table],
    flows: Sequence[Flow],
    *,
    once: bool,
    beside: Sequence[Side] = (),
    metrics: Metrics | None = None,
    remade: Sequence[Table] = (),
    require_whole: Callable[[], None] = lambda: None,
) -> None:
    """Runs the flows until the process is told to stop; with `once`, until they have caught up.

    With `once` the flows run one after the other, because each reads what the one before wrote.
    `remade` are tables that are made anew right afterwards: what is in them need not fit this version.
    `require_whole` raises TableError where the tables have lost what was committed.
    `beside` are functions that run in threads of their own until their event is set (upkeep, quality).
    Raises TidemarkError as soon as a flow fails.
    """
    for table in tables:
        store.ensure(table)
    fitting = [table for table in tables if table not in remade]
    require_fitting(settings, lakehouse, fitting, {flow.name: flow.version for flow in flows})
    for flow in flows:
        checkpoint = Path(flow.checkpoint(lakehouse))
        clear_unfinished(checkpoint)
        require_sound(flow.name, checkpoint, lakehouse, store, tables)
    require_whole()
    lags = {flow.name: partial(flow.lag, Path(flow.checkpoint(lakehouse))) for flow in flows}
    progress = Progress(settings, store, lags, sizes(lakehouse, tables), metrics)
    runners = [Runner(flow, spark, settings, lakehouse, store, progress) for flow in flows]
    progress.start()
    try:
        with _stop_signals() as stopping:
            if once:
                for runner in runners:
                    runner.start(once=True)
                    _finish([runner], settings, stopping)
            else:
                with serving(settings, progress.metrics.registry, progress.health) as endpoint:
                    for runner in runners:
                        runner.start(once=False)
                    progress.running(endpoint)
                    for side in beside:
                        threading.Thread(target=side, args=(stopping,), daemon=True).start()
                    _finish(runners, settings, stopping)
    finally:
        progress.stop()


def _finish(runners: Sequence[Runner], settings: Settings, stopping: threading.Event) -> None:
    """Waits for the end of the queries, or for the signal to end them between two batches."""
    while not stopping.wait(_POLL_SECONDS) and any(runner.query.isActive for runner in runners):
        _raise_failure(runners, settings)
        for runner in runners:
            runner.resize(stopping)
    if stopping.is_set():
        _stop_between_batches(runners, settings)
    else:
        _raise_failure(runners, settings)


def _stop_between_batches(runners: Sequence[Runner], settings: Settings) -> None:
    """Waits for the batches under way; one that takes too long is interrupted, and run again next time."""

    def stop() -> None:
        for runner in runners:
            runner.end()
        # Not held while the queries are stopped: Spark waits for a batch that has come to the gate meanwhile.
        with lock.at_rest(settings):
            pass
        _stop(runners)

    waiting = threading.Thread(target=stop, daemon=True)
    waiting.start()
    waiting.join(timeout=_PATIENCE_SECONDS)
    _stop(runners)


def _stop(runners: Sequence[Runner]) -> None:
    # A signal to the whole process group ends the JVM before us: then there is nothing left to stop.
    with contextlib.suppress(Py4JError, ConnectionError):
        for runner in runners:
            if runner.query.isActive:
                runner.query.stop()


def _raise_failure(runners: Sequence[Runner], settings: Settings) -> None:
    for runner in runners:
        failure = runner.query.exception()
        if failure is not None:
            raise explain(runner.flow.name, runner.failure or failure, settings)


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    # A runtime may call us in a thread of its own, where signals cannot be caught.
    caught = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, stop) for number in caught}
    try:
        yield stopping
    finally:
        stopping.set()
        for number, handler in before.items():
            signal.signal(number, handler)
