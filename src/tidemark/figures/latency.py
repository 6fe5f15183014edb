"""How long requests took: quantiles, over time, by page, and as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tidemark.figures import quantiles
from tidemark.figures.comparison import Change
from tidemark.figures.measures import LINES, Gold, has, measured
from tidemark.figures.quantiles import COARSE, FINE, Latency
from tidemark.figures.query import Columns, Condition, Where, count, log_bucket, prefix, query, time_bin
from tidemark.figures.rows import Rows, ordered
from tidemark.figures.selection import Selection
from tidemark.figures.silver import MOST_CHARACTERS, PEOPLE

if TYPE_CHECKING:
    import pyarrow as pa

LATENCY = Gold("gold/latency", 300, bot=True)
PAGE_LATENCY = Gold("gold/page_latency", 3600)
TIMED = Where("latency_bucket", "is not null")
# Of requests whose page counts: those of people, without assets and failures.
SERVED = (PEOPLE, Where("asset", "=", False), Where("status", "<", 400), Where("duration_us", "is not null"))
# Buckets that a row of the heat map has: durations of the next row are about twice as long.
ROW = 35
# Hours of the windows in which pages are compared with themselves.
WIDTHS = (1, 2, 3, 4, 6, 12, 24)
MOST_COMPARED = 100
_EPOCH, _HOUR = pd.Timestamp(0, tz="UTC"), pd.Timedelta(hours=1)


def counts(
    rows: Rows,
    selection: Selection,
    bin_seconds: int | None = None,
    *,
    by: Sequence[str] = (),
    where: Sequence[Condition] = (),
) -> pd.DataFrame:
    """Columns `bin` (UTC, with `bin_seconds`), `by`, `bucket` (α = 0.01) and `requests`, of all requests with a
    duration that `where` keeps."""
    timed, groups = LINES.of(LATENCY, only=(TIMED,)), [*by, "latency_bucket"]
    measured_rows = measured(
        rows, selection, timed, ["requests"], by=groups, bin_seconds=bin_seconds, where=where
    )
    return measured_rows.rename(columns={"latency_bucket": "bucket"})


def latency(rows: Rows, selection: Selection) -> Latency:
    return quantiles.summary(counts(rows, selection), FINE)


def over_time(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `timed`, and `p50`, `p95`, `p99` in seconds."""
    return quantiles.quantiles(counts(rows, selection, bin_seconds), ["bin"], FINE)


def apdex(rows: Rows, selection: Selection, threshold: float) -> float | None:
    """Apdex with `threshold` in seconds; None without requests that have a duration."""
    return quantiles.apdex(counts(rows, selection), threshold, FINE)


def heat(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `low` and `high`, the bounds of durations in seconds, and `requests`."""
    cells = counts(rows, selection, bin_seconds)
    cells["row"] = cells["bucket"] // ROW
    cells = cells.groupby(["bin", "row"], as_index=False)[["requests"]].sum()
    bounds = {row: _bounds(row) for row in cells["row"].unique()}
    low, high = ([bounds[row][i] for row in cells["row"]] for i in (0, 1))
    return cells.assign(low=low, high=high)[["bin", "low", "high", "requests"]].astype(
        {"low": "float64", "high": "float64"}
    )


def _bounds(row: int) -> tuple[float, float]:
    """The durations of a row of the heat map, in seconds."""
    base = quantiles.gamma(FINE)
    low = 0.0 if row == 0 else float(base ** (row * ROW - 1.0) / 1_000_000)
    return low, float(base ** (row * ROW + ROW - 1.0) / 1_000_000)


def rows_of(cells: pd.DataFrame) -> list[tuple[float, float]]:
    """The bounds of all rows of a heat map, the longest durations first; rows without requests are among them, but not
    those next to the row that begins at 0."""
    lows = cells["low"].unique()
    most, least = lows.max(), lows[lows > 0].min() if (lows > 0).any() else 0.0
    every = [_bounds(row) for row in range(quantiles.bucket(float(most) * 2, FINE) // ROW + 1)]
    kept = [pair for pair in every if least <= pair[0] <= most or pair[0] in lows]
    return kept[::-1]


def slowest_pages(
    rows: Rows, selection: Selection, *, least: int = 1, limit: int | None = None
) -> pd.DataFrame:
    """Columns `path` (its first 200 characters), `timed`, and `p50`, `p95`, `p99` in seconds; slowest p95 first. Of
    people's requests without assets and failures, pages with at least `least` of them."""
    pages = quantiles.quantiles(page_counts(rows, selection), ["path"], COARSE)
    return ordered(pages[pages["timed"] >= least], ["-p95", "-timed", "path"], limit)


def p95_changes(
    rows: Rows, pages: pd.DataFrame, selection: Selection, period: Selection | None
) -> list[Change]:
    """How the p95 of each of the `pages` changed from the earlier period; no change for a page without requests."""
    if period is None:
        return [Change(None, None)] * len(pages)
    now, before = (
        slowest_pages(rows, each).set_index("path")["p95"].to_dict() for each in (selection, period)
    )
    return [Change(now.get(path), before.get(path)) for path in pages["path"]]


def slow_hours(rows: Rows, selection: Selection, *, least: int = 1, times: float = 2.0) -> pd.DataFrame:
    """Pages that were slower for some hours than usually: columns `path`, `bin` (the start of the worst window, UTC),
    `width` (its hours), `timed` (its requests), `p95` and `usual` in seconds, `times` (of the two), `hours` (how many
    were slow); most time lost in the worst window first.

    A page's windows have the fewest hours of WIDTHS in which it has `least` requests on average; those with fewer are
    left out. The usual p95 is the median of its windows, and a window is slow if its p95 is at least `times` as long.
    Only the MOST_COMPARED pages with most requests are compared."""
    columns = ["path", "bin", "width", "timed", "p95", "usual", "times", "hours"]
    hourly = page_counts(rows, selection, hourly=True)
    if hourly.empty:
        return pd.DataFrame(columns=pd.Index(columns))
    most = hourly.groupby("path")["requests"].sum().nlargest(MOST_COMPARED)
    needed = least * hourly["bin"].nunique() / most
    widths = pd.Series([next((w for w in WIDTHS if w >= hours), 0) for hours in needed], most.index)
    width = hourly["path"].map(widths).fillna(0).astype("int64")
    kept, width = hourly[width > 0], width[width > 0]
    hour = (kept["bin"] - _EPOCH) // _HOUR
    kept = kept.assign(bin=_EPOCH + (hour - hour % width) * _HOUR)
    windows = quantiles.quantiles(kept, ["path", "bin"], COARSE)
    windows = windows[windows["timed"] >= least]
    windows["width"] = windows["path"].map(widths)
    windows["usual"] = windows.groupby("path")["p95"].transform("median")
    windows["times"] = windows["p95"] / windows["usual"]
    slow = windows[windows["times"] >= times]
    slow = slow.assign(
        hours=slow.groupby("path")["width"].transform("sum"),
        lost=(slow["p95"] - slow["usual"]) * slow["timed"],
    ).sort_values(["lost", "path"], ascending=[False, True])
    return slow.drop_duplicates("path")[columns].reset_index(drop=True)


def page_counts(rows: Rows, selection: Selection, *, hourly: bool = False) -> pd.DataFrame:
    """Columns `path`, `bucket` (α = 0.05), `requests`, and with `hourly` the hour `bin` (UTC)."""
    if has(rows, PAGE_LATENCY, selection):
        names = ["path", "buckets", *([PAGE_LATENCY.time] if hourly else [])]
        return _unfolded(rows.reader.arrow(query(PAGE_LATENCY.table, names, PAGE_LATENCY.where(selection))))
    columns: Columns = {
        "path": prefix("path", MOST_CHARACTERS),
        "bucket": log_bucket("duration_us", quantiles.gamma(COARSE)),
        "requests": count(),
    }
    if hourly:
        columns["bin"] = time_bin("event_time", PAGE_LATENCY.seconds)
    base = replace(LINES, columns={})
    where = (*base.where(selection, rows), *SERVED)
    return rows(query(base.table, columns, where, group_by=[n for n in columns if n != "requests"]))


def _unfolded(table: pa.Table) -> pd.DataFrame:
    """Rows of (path, bucket, requests), each once, of rows with a map from bucket to requests; also by `bin`, where
    they have a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts, hourly = [], PAGE_LATENCY.time in table.column_names
    by = ["bin"] if hourly else []
    for batch in (each for each in table.to_batches() if each.num_rows):
        maps = batch["buckets"]
        lengths = np.diff(maps.offsets.to_numpy())
        path = pc.dictionary_encode(batch["path"].cast(pa.string()))
        code = np.repeat(path.indices.to_numpy(), lengths)
        first, last = maps.offsets[0].as_py(), maps.offsets[len(maps)].as_py()
        keys = maps.keys.slice(first, last - first).to_numpy()
        items = maps.items.slice(first, last - first).to_numpy()
        summed = pd.DataFrame({"code": code, "bucket": keys, "requests": items})
        if hourly:
            at = batch[PAGE_LATENCY.time].cast(pa.timestamp("us", "UTC")).to_pandas()
            summed["bin"] = at.repeat(lengths).reset_index(drop=True)
        summed = summed.groupby(["code", "bucket", *by], as_index=False)[["requests"]].sum()
        summed["path"] = path.dictionary.take(pa.array(summed.pop("code"))).to_pylist()
        parts.append(summed)
    if not parts:
        return pd.DataFrame({name: [] for name in ("path", "bucket", "requests", *by)})
    return pd.concat(parts).groupby(["path", "bucket", *by], as_index=False)[["requests"]].sum()
