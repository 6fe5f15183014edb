"""Progress of the flows: the live record of the home, and the history in quality.progress."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.contract.quality_tables import PROGRESS
from tidemark.contract.store import Store
from tidemark.errors import TidemarkError
from tidemark.local.records import write_record
from tidemark.settings import Settings
from tidemark.stream.lock import appending
from tidemark.stream.metrics import Metrics, Sizes

_RECORD_SECONDS = 1.0
_HISTORY_SECONDS = 5.0
_RATE_SECONDS = 10.0
_HISTORY_ROWS = 1_000
# A source that does not answer is asked for half a minute. The end of the process does not wait for that.
_LAST_LOOK_SECONDS = 3.0
log = logging.getLogger("tidemark.stream")


class Progress:
    """Collects the reports of the flows' batches; a separate thread writes them.

    `lag` returns by flow how many rows wait, None if unknown; `sizes` rows and bytes per table.
    `metrics` are those to keep up to date; `record` names the live record.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        lag: Mapping[str, Callable[[], int | None]],
        sizes: Sizes = dict,
        metrics: Metrics | None = None,
        *,
        record: str = "pipeline",
    ) -> None:
        self._settings = settings
        self._record = settings.run_directory / f"{record}.json"
        self._store = store
        self._lag = lag
        self._lock = threading.Lock()
        self._flows: dict[str, dict[str, Any]] = {name: _idle() for name in lag}
        self._shown: dict[str, dict[str, Any]] = {}
        self._recent: dict[str, list[tuple[float, int]]] = {name: [] for name in lag}
        self._history: list[dict[str, Any]] = []
        # The last look at the flows, as in the record.
        self._seen: dict[str, Any] = {}
        self._queries: dict[str, StreamingQuery] = {}
        # When (monotonic) a flow last committed or had no waiting rows, and when its lag was last known.
        self._busy: dict[str, float] = dict.fromkeys(lag, time.monotonic())
        self._known: dict[str, float] = dict.fromkeys(lag, time.monotonic())
        self.metrics = metrics or Metrics()
        self.metrics.observe(self.summaries, sizes, lambda: not self._complaints())
        self._state = "starting"
        self._endpoint = ""
        self._done = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        self._write_record()
        self._thread.start()

    def watch(self, flow: str, query: StreamingQuery) -> None:
        """Registers the query of a started flow."""
        self._queries[flow] = query

    def running(self, endpoint: str = "") -> None:
        """Records that every query has started, which the supervisor waits for. `endpoint` is the address of
        metrics and health."""
        self._state = "running"
        self._endpoint = endpoint
        self._write_record()

    def stop(self) -> None:
        self._state = "stopped"
        self._done.set()
        self._thread.join(_LAST_LOOK_SECONDS)
        self._write_history()
        self._refresh_record(look=False)

    def batch_done(self, flow: str, batch_id: int, started: datetime, facts: Mapping[str, Any]) -> None:
        """Records a batch: `rows`, if known `newest_kafka_timestamp` and `newest_event_time`, and for
        counted lines `accepted`, `rejected`, `duplicate` and `late`."""
        now = datetime.now(UTC)
        seconds = max((now - started).total_seconds(), 1e-6)
        arrived = facts.get("newest_kafka_timestamp")
        row = {
            "flow": flow,
            "batch_id": batch_id,
            "recorded_at": now,
            "rows": facts["rows"],
            "duration_ms": round(seconds * 1000),
            "rows_per_second": facts["rows"] / seconds,
            "freshness_seconds": (now - arrived).total_seconds() if arrived else None,
            "newest_event_time": facts.get("newest_event_time"),
        }
        with self._lock:
            self._flows[flow] |= row | {"newest_kafka_timestamp": arrived}
            self._recent[flow].append((time.monotonic(), facts["rows"]))
            self._history.append(row)
            self._busy[flow] = time.monotonic()
        self.metrics.batch_done(flow, seconds, facts)
        log.debug("batch done", extra={**facts, **row, "recorded_at": now})

    def summaries(self) -> dict[str, dict[str, Any]]:
        """Values of the metrics per flow: the live record's facts, times as epoch seconds, `active` and
        `state_rows`."""
        with self._lock:
            flows = {name: dict(flow) for name, flow in self._shown.items()}
        for name, flow in flows.items():
            for key in ("newest_event_time", "recorded_at"):
                flow[key] = flow[key].timestamp() if flow.get(key) else None
            flow["active"], flow["state_rows"] = _of_query(self._queries.get(name))
        return flows

    def health(self) -> dict[str, Any]:
        """`status` "ok" or "failing", its `reasons`, and the underlying values per flow."""
        reasons = self._complaints()
        return {
            "status": "failing" if reasons else "ok",
            "reasons": reasons,
            "state": self._state,
            "flows": {
                name: {"active": pulse.active, "lag": pulse.lag, "idle_seconds": round(pulse.idle, 1)}
                for name, pulse in self._pulses().items()
            },
        }

    def _complaints(self) -> list[str]:
        return complaints(self._state, self._pulses(), self._settings.watching.stale_seconds)

    def _pulses(self) -> dict[str, Pulse]:
        active = {name: _of_query(self._queries.get(name))[0] for name in self._flows}
        now = time.monotonic()
        with self._lock:
            return {
                name: Pulse(active[name], flow["lag"], now - self._busy[name], now - self._known[name])
                for name, flow in self._flows.items()
            }

    def _run(self) -> None:
        last = time.monotonic()
        while not self._done.wait(_RECORD_SECONDS):
            self._refresh_record()
            if time.monotonic() - last >= _HISTORY_SECONDS:
                self._write_history()
                last = time.monotonic()
        self._refresh_record()

    def _refresh_record(self, *, look: bool = True) -> None:
        # On a full disk, the flows report the error.
        with contextlib.suppress(OSError):
            self._write_record(look=look)

    def _write_record(self, *, look: bool = True) -> None:
        if look:
            looked_at = time.time()  # the lags include every line that was committed before
            self._seen = {
                "looked_at": looked_at,
                "flows": {name: self._summary(name) for name in self._flows},
            }
        with self._writing:  # called by the thread, and when the state changes
            write_record(
                self._record,
                pid=os.getpid(),
                state=self._state,
                endpoint=self._endpoint,
                troubles=dict(self.metrics.troubles),
                formats=sorted(self._settings.formats),
                **self._seen,
            )

    def _summary(self, name: str) -> dict[str, Any]:
        lag = self._lag[name]()
        horizon = time.monotonic() - _RATE_SECONDS
        with self._lock:
            self._recent[name] = [entry for entry in self._recent[name] if entry[0] >= horizon]
            rows = sum(count for _, count in self._recent[name])
            flow = self._flows[name]
            flow["lag"] = lag
            if lag is not None:
                self._known[name] = time.monotonic()
            if lag == 0:
                self._busy[name] = time.monotonic()
            summary = {**flow, "rows_per_second": rows / _RATE_SECONDS}
        arrived = summary["newest_kafka_timestamp"]
        if lag and arrived:  # while lines wait, the newest counted one ages
            summary["freshness_seconds"] = (datetime.now(UTC) - arrived).total_seconds()
        self._shown[name] = summary
        return {key: _plain(value) for key, value in summary.items() if key != "flow"}

    def _write_history(self) -> None:
        with self._lock:
            rows, self._history = self._history, []
            lags = {name: flow["lag"] for name, flow in self._flows.items()}
        if rows:
            history = pa.Table.from_pylist(
                [{**row, "lag": lags[row["flow"]]} for row in rows], PROGRESS.arrow_schema
            )
            try:
                with appending(self._settings):
                    self._store.append_arrow(PROGRESS, history)
            except TidemarkError as error:
                # A flow with the same fault reports it itself; this must not hide it.
                log.warning("progress is not written down: %s", error)
                with self._lock:
                    self._history = rows[-_HISTORY_ROWS:] + self._history


@dataclass(frozen=True)
class Pulse:
    """State of a flow. Times are seconds since an event.

    `active`: its query runs. `lag`: rows waiting, None if unknown. `idle`: since it last committed a batch
    or had no rows waiting. `unknown`: since the lag was last known.
    """

    active: bool
    lag: int | None
    idle: float
    unknown: float


def complaints(state: str, pulses: Mapping[str, Pulse], stale_seconds: float) -> list[str]:
    """Reasons why the pipeline fails; empty if it is healthy. `state` is that of the process."""
    if state != "running":
        return [f"the pipeline is {state}"]
    texts = []
    for flow, pulse in pulses.items():
        if not pulse.active:
            texts.append(f"flow {flow} has stopped")
        elif pulse.lag is None and pulse.unknown > stale_seconds:
            texts.append(
                f"flow {flow}: how much waits is unknown for {pulse.unknown:.0f} s, its source does not answer"
            )
        elif pulse.lag and pulse.idle > stale_seconds:
            texts.append(
                f"flow {flow} has committed nothing for {pulse.idle:.0f} s while {pulse.lag} rows wait"
            )
    return texts


def _idle() -> dict[str, Any]:
    return {
        "batch_id": None,
        "rows": 0,
        "duration_ms": None,
        "rows_per_second": 0.0,
        "freshness_seconds": None,
        "lag": None,
        "newest_event_time": None,
        "newest_kafka_timestamp": None,
    }


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _of_query(query: StreamingQuery | None) -> tuple[bool, int | None]:
    """Whether a query runs, and its number of state rows; None for a query without state."""
    try:
        if query is None or not query.isActive:
            return False, None
        progress = query.lastProgress
    except (Py4JError, OSError):  # the JVM is gone
        return False, None
    operators = progress.stateOperators if progress else []
    return True, sum(operator.numRowsTotal for operator in operators) if operators else None
