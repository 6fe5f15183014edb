"""The figures that alert rules watch, as a matrix of sites and windows, from the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.store import Store, Where
from tidemark.contract.table import Table
from tidemark.engine import sketches
from tidemark.engine.goals import matches
from tidemark.engine.groups import encoded, whole
from tidemark.figures import quantiles
from tidemark.figures.sketches import WHOLE
from tidemark.operate.alerts.judging import Numbers
from tidemark.settings.alerts import AlertSettings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_FOUND = 404
_HOUR = 3600


@dataclass(frozen=True)
class Figures:
    """Reads the metric of a rule. `tables`: gold.traffic, gold.errors, gold.latency and silver.requests, by name.

    A rule with a filter or a goal reads silver.requests, and so do 404s in windows of less than an hour. All reads are
    bounded by the time of the windows.
    """

    store: Store
    tables: Mapping[str, Table]
    rule: AlertSettings

    @property
    def of_lines(self) -> bool:
        """Whether the figure is made of single lines."""
        return bool(self.rule.filter or self.rule.goal) or (
            self.rule.metric == "not_found" and self.rule.seconds < _HOUR
        )

    def read(self, sites: Sequence[str], start: int, end: int) -> Numbers:
        """The metric of each site (row) in the windows numbered `start` to before `end` since the epoch (column); NaN
        where a share has no requests, or no request has a duration."""
        if end <= start:
            return np.empty((len(sites), 0))
        read = self._lines if self.of_lines else self._counted
        return read(_Grid(tuple(sites), start, end, self.rule.seconds))

    def _counted(self, grid: _Grid) -> Numbers:
        metric = self.rule.metric
        if metric == "not_found":
            rows = self._rows("gold.errors", ["status", "requests"], grid)
            rows = rows.filter(pc.equal(rows["status"], _NOT_FOUND))
            return grid.sums(rows, "window_start", rows["requests"])
        if metric == "p95":
            rows = self._rows("gold.latency", ["latency_bucket", "requests"], grid)
            return grid.p95(rows, "window_start", rows["requests"])
        part = {"share_5xx": "status_5xx", "share_bots": "bot_requests", "visitors": "visitors_sketch"}.get(
            metric
        )
        rows = self._rows("gold.traffic", ["requests", *([part] if part else [])], grid)
        if metric == "visitors":
            found = sketches.of_bytes(rows["visitors_sketch"])
            return grid.united(rows, "window_start", found)
        requests = grid.sums(rows, "window_start", rows["requests"])
        return _share(grid.sums(rows, "window_start", rows[part]), requests) if part else requests

    def _lines(self, grid: _Grid) -> Numbers:
        metric = self.rule.metric
        needs = ["bot", "path", "status", "method", "search_term"] if self.rule.goal else {
            "visitors": ["visitor_id", "bot"], "share_bots": ["bot"], "p95": ["latency_bucket"],
            "share_5xx": ["status"], "not_found": ["status"],
        }.get(metric, [])  # fmt: skip
        conditions = self.rule.conditions
        columns = dict.fromkeys([*needs, *(name for name, _, _ in conditions)])
        rows = self._rows("silver.requests", list(columns), grid)
        for name, operator, wanted in conditions:
            rows = rows.filter(passes(rows[name], operator, wanted))
        ones = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
        if self.rule.goal:
            people = rows.filter(pc.invert(rows["bot"]))
            matched = matches(self.rule.goal, people, encoded(people["path"]))
            return grid.sums(people, "event_time", pa.array(matched).cast(pa.int64()))
        if metric == "visitors":
            people = rows.filter(pc.invert(rows["bot"]))
            found = sketches.of_values(
                np.arange(people.num_rows), whole(people["visitor_id"]), people.num_rows
            )
            return grid.united(people, "event_time", found)
        if metric == "p95":
            rows = rows.filter(rows["latency_bucket"].is_valid())
            return grid.p95(rows, "event_time", ones.slice(0, rows.num_rows))
        if metric == "not_found":
            return grid.sums(rows, "event_time", pc.equal(rows["status"], _NOT_FOUND).cast(pa.int64()))
        requests = grid.sums(rows, "event_time", ones)
        if metric == "requests":
            return requests
        failed = pc.equal(pc.divide(rows["status"], 100), 5) if metric == "share_5xx" else rows["bot"]
        return _share(grid.sums(rows, "event_time", failed.cast(pa.int64())), requests)

    def _rows(self, name: str, columns: Sequence[str], grid: _Grid) -> pa.Table:
        time = "event_time" if name == "silver.requests" else "window_start"
        where: Where = [[("site", "in", list(grid.sites)), (time, ">=", grid.first), (time, "<", grid.last)]]
        return self.store.read(self.tables[name], where, ["site", time, *columns])


@dataclass(frozen=True)
class _Grid:
    """Sites and windows of `seconds`, numbered `start` to before `end` since the epoch."""

    sites: tuple[str, ...]
    start: int
    end: int
    seconds: int

    @property
    def first(self) -> datetime:
        return _EPOCH + timedelta(seconds=self.start * self.seconds)

    @property
    def last(self) -> datetime:
        return _EPOCH + timedelta(seconds=self.end * self.seconds)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.sites), self.end - self.start

    def cells(self, rows: pa.Table, time: str) -> Numbers:
        """The number of each row's cell, row by row of the matrix."""
        site = pc.index_in(whole(rows["site"]), pa.array(self.sites, pa.string())).to_numpy()
        micros = whole(rows[time].cast(pa.int64())).to_numpy()
        found: Numbers = site * self.shape[1] + micros // (self.seconds * 1_000_000) - self.start
        return found.astype(np.int64)

    def sums(self, rows: pa.Table, time: str, values: Any) -> Numbers:
        weights = whole(values.cast(pa.float64())).to_numpy(zero_copy_only=False)
        size = self.shape[0] * self.shape[1]
        found: Numbers = np.bincount(self.cells(rows, time), weights, size).reshape(self.shape)
        return found

    def united(self, rows: pa.Table, time: str, found: sketches.Sketches) -> Numbers:
        """Distinct visitors of each cell, of one sketch per row."""
        cells, size = self.cells(rows, time), self.shape[0] * self.shape[1]
        least = np.full(size, WHOLE)
        np.minimum.at(least, cells, found.theta)
        counts = sketches.unite(cells[found.groups], found.hashes, least).counts()
        visitors: Numbers = counts.to_numpy().astype(np.float64).reshape(self.shape)
        return visitors

    def p95(self, rows: pa.Table, time: str, requests: Any) -> Numbers:
        """The 95% quantile of each cell in seconds, by nearest rank; `requests` are those of a row's bucket."""
        cells = self.cells(rows, time)
        buckets = whole(rows["latency_bucket"]).to_numpy()
        counts = whole(requests).to_numpy()
        order = np.lexsort((buckets, cells))
        cells, buckets, counts = cells[order], buckets[order], counts[order]
        sums = np.bincount(cells, counts, self.shape[0] * self.shape[1]).astype(np.int64)
        rank = (95 * sums + 99) // 100
        passed = np.cumsum(counts) - (np.cumsum(sums) - sums)[cells]
        reached = np.flatnonzero(passed >= rank[cells])
        there, first = np.unique(cells[reached], return_index=True)
        found = np.full(len(sums), np.nan)
        distinct, codes = np.unique(buckets[reached[first]], return_inverse=True)
        seconds = quantiles.seconds(distinct, quantiles.FINE)
        found[there] = seconds[codes] if len(distinct) else 0
        return found.reshape(self.shape)


def passes(column: pa.ChunkedArray, operator: str, values: Sequence[str]) -> pa.Array:
    """Whether each value of a column fulfils a condition of a filter; NULL counts as empty."""
    text = pc.fill_null(column.cast(pa.string()), "")
    if operator in ("=", "!="):
        found = pc.is_in(text, pa.array(values, pa.string()))
        return found if operator == "=" else pc.invert(found)
    test = pc.match_substring if operator == "~" else pc.starts_with
    return reduce(pc.or_, (test(text, value) for value in values))


def _share(part: Numbers, of: Numbers) -> Numbers:
    found: Numbers = np.divide(part, of, out=np.full(of.shape, np.nan), where=of > 0)
    return found
