"""The main figures of a home's tables over all time, read from the tables as they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from tidemark.engine import sketches
from tidemark.engine.groups import Groups
from tidemark.errors import TableError, first_line
from tidemark.figures.sketches import WHOLE
from tidemark.settings import Settings

MOST_PAGES = 100
_CLASSES = ("2xx", "3xx", "4xx", "5xx")
Figures = dict[str, Any]


def of_lines(settings: Settings) -> Figures:
    """The figures that are committed together with the lines: `lines`, of which `requests` were accepted, `rejected`
    and `duplicates`; `pageviews`, `visitors`, `bot_requests`; `countries`, most visitors first; `first_event_time` and
    `newest_event_time` (ISO 8601, None without lines). Raises TableError."""
    accounts = _read(settings, "quality.accounts", "received", "rejected", "duplicate")
    sites = _read(settings, "quality.sites", "first_event_time", "newest_event_time")
    sums = ("requests", "pageviews", "bot_requests")
    rows = _read(settings, "gold.visitors_by_country", "site", "country", *sums, "visitors_sketch")
    visitors: Counter[str] = Counter()
    for (_, country), number in _distinct(rows, "site", "country").items():
        visitors[country] += number
    by_country = rows.group_by("country").aggregate([(name, "sum") for name in sums]).to_pylist()
    countries = [
        {
            "country": row["country"],
            "visitors": visitors[row["country"]],
            "pageviews": row["pageviews_sum"],
            "requests": row["requests_sum"],
        }
        for row in by_country
    ]
    return {
        "lines": _sum(accounts["received"]),
        "requests": _sum(rows["requests"]),
        "rejected": _sum(accounts["rejected"]),
        "duplicates": _sum(accounts["duplicate"]),
        "pageviews": _sum(rows["pageviews"]),
        "visitors": sum(_distinct(rows, "site").values()),
        "bot_requests": _sum(rows["bot_requests"]),
        "first_event_time": _moment(pc.min(sites["first_event_time"])),
        "newest_event_time": _moment(pc.max(sites["newest_event_time"])),
        "countries": sorted(countries, key=lambda c: (-c["visitors"], -c["requests"], c["country"])),
    }


def of_activity(settings: Settings) -> Figures:
    """The figures that follow a moment later: `sessions`, `statuses` (requests by class), `bytes`, and `pages`, the
    MOST_PAGES with the most pageviews. Raises TableError."""
    traffic = _read(settings, "gold.traffic", "bytes", *(f"status_{name}" for name in _CLASSES))
    pages = _read(settings, "gold.pages", "path", "pageviews")
    by_path = pages.group_by("path").aggregate([("pageviews", "sum")])
    most = by_path.sort_by([("pageviews_sum", "descending"), ("path", "ascending")])[:MOST_PAGES].to_pylist()
    return {
        "sessions": _read(settings, "silver.sessions", "closed").num_rows,
        "statuses": {name: _sum(traffic[f"status_{name}"]) for name in _CLASSES},
        "bytes": _sum(traffic["bytes"]),
        "pages": [{"path": row["path"], "pageviews": row["pageviews_sum"]} for row in most],
    }


def reasons(settings: Settings, most: int = 3) -> list[tuple[str, int]]:
    """The rules that most rejected lines break, and the number of these lines. Raises TableError."""
    broken = pc.list_flatten(_read(settings, "silver.rejected", "reasons")["reasons"])
    return Counter(
        {each["values"]: each["counts"] for each in broken.value_counts().to_pylist()}
    ).most_common(most)


def _distinct(rows: pa.Table, *by: str) -> dict[tuple[Any, ...], int]:
    """Distinct visitors by the values of these columns, from the union of the rows' sketches."""
    groups = Groups.by([rows[name] for name in by])
    own = sketches.of_bytes(rows["visitors_sketch"])
    least = np.full(len(groups), WHOLE)
    np.minimum.at(least, groups.of, own.theta)
    counts = sketches.unite(groups.of[own.groups], own.hashes, least).counts()
    keys = rows.select(list(by)).take(pa.array(groups.first, pa.int64())).to_pylist()
    return {tuple(key.values()): count for key, count in zip(keys, counts.to_pylist(), strict=True)}


_TYPES = {"visitors_sketch": pa.binary(), "reasons": pa.list_(pa.string())}
_TEXTS = ("site", "country", "path")


def _read(settings: Settings, table: str, *columns: str) -> pa.Table:
    """These columns of a table; no rows if the pipeline has not created it yet."""
    path = settings.tables.joinpath(*table.split("."))
    try:
        if DeltaTable.is_deltatable(str(path)):
            files = fs.SubTreeFileSystem(str(path), fs.LocalFileSystem())
            return DeltaTable(path).to_pyarrow_table(columns=list(columns), filesystem=files)
    except (DeltaError, OSError) as error:
        raise TableError(f"{table} at {path} cannot be read: {first_line(error)}", "Try again.") from error
    kinds = [(name, _TYPES.get(name, pa.string() if name in _TEXTS else pa.int64())) for name in columns]
    return pa.schema(kinds).empty_table()


def _sum(column: pa.ChunkedArray) -> int:
    return pc.sum(column).as_py() or 0


def _moment(scalar: pa.Scalar) -> str | None:
    found = scalar.as_py()
    return found.isoformat() if found else None
