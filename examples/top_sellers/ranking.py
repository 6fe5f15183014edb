"""Totals and top tens from units sold and the catalogue: functions of tables, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pandas as pd
import pyarrow as pa

from examples.top_sellers.tables import TOP, TOP_TEN, TOTALS
from tidemark.contract.store import Condition, Where
from tidemark.contract.table import Change, Table

PERIODS = {"hour": "h", "day": "D"}


@dataclass(frozen=True)
class Touched:
    """The rows that a batch may have changed: totals of `products` on `days` (their midnights, UTC)."""

    products: frozenset[str]
    days: frozenset[datetime]

    @property
    def units(self) -> Where:
        """The units from which those totals are computed."""
        return [[*group, ("product", "in", sorted(self.products))] for group in self._on("minute")]

    @property
    def windows(self) -> Where:
        """All totals, or all ranks, of those days and their hours."""
        return self._on("window_start")

    def _on(self, time: str) -> list[list[Condition]]:
        return [[(time, ">=", day), (time, "<", day + timedelta(days=1))] for day in sorted(self.days)]


def touched(sold: pa.Table, repriced: pa.Table) -> Touched:
    """The rows that depend on units sold in this batch, or on products whose catalogue entry changed."""
    minutes: Iterable[datetime] = [*sold["minute"].to_pylist(), *repriced["minute"].to_pylist()]
    days = {m.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) for m in minutes}
    return Touched(
        frozenset([*sold["product"].to_pylist(), *repriced["product"].to_pylist()]), frozenset(days)
    )


def totals(units: pa.Table, catalogue: pa.Table) -> pa.Table:
    """Units per minute to rows of TOTALS, priced by the catalogue of that minute."""
    prices = catalogue.to_pandas().sort_values("valid_from")
    sold = pd.merge_asof(
        units.to_pandas().sort_values("minute"),
        prices[["product", "valid_from", "price_cents"]],
        left_on="minute",
        right_on="valid_from",
        by="product",
    )
    sold["revenue_cents"] = sold["units"] * sold["price_cents"].fillna(0).astype("int64")
    parts = []
    for period, unit in PERIODS.items():
        window = sold["minute"].dt.floor(unit).rename("window_start")
        sums = sold.groupby([window, "product"])[["units", "revenue_cents"]].sum().reset_index()
        parts.append(sums.assign(period=period))
    return _rows(pd.concat(parts), TOTALS)


def top_ten(totals: pa.Table, catalogue: pa.Table) -> pa.Table:
    """All totals of some windows to the rows of TOP_TEN for them."""
    ours = totals.to_pandas()
    ours = ours[ours["units"] > 0].copy()
    ranks = ours.groupby(["period", "window_start"])["units"].rank(method="min", ascending=False)
    ours["rank"] = ranks.astype("int64")
    ours = ours[ours["rank"] <= TOP].copy()
    length = ours["period"].map({"hour": timedelta(hours=1), "day": timedelta(days=1)})
    ours["window_end"] = (ours["window_start"] + length).astype(ours["window_start"].dtype)
    names = catalogue.to_pandas().sort_values("valid_from")[["product", "valid_from", "name"]]
    named = pd.merge_asof(
        ours.sort_values("window_end"),
        names,
        left_on="window_end",
        right_on="valid_from",
        by="product",
        allow_exact_matches=False,
    )
    return _rows(named, TOP_TEN)


def change(before: pa.Table, after: pa.Table) -> Change:
    """The change from old to new ranks: rows that are new or differ, and products that dropped out."""
    values = [name for name in TOP_TEN.column_names if name != "updated_at"]
    known = {tuple(row[k] for k in TOP_TEN.key): row for row in before.select(values).to_pylist()}
    changed = []
    for row in after.select(values).to_pylist():
        changed.append(known.pop(tuple(row[k] for k in TOP_TEN.key), None) != row)
    gone = pa.Table.from_pylist(list(known.values()), before.select(values).schema)
    return Change(after.filter(pa.array(changed, pa.bool_())), gone)


def _rows(frame: pd.DataFrame, table: Table) -> pa.Table:
    columns = [field for field in table.arrow_schema if field.name != "updated_at"]
    return pa.Table.from_pandas(frame, pa.schema(columns), preserve_index=False)
