"""Totals by the price of their minute, ranks with ties, and what a refund changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from examples.top_sellers.ranking import change, top_ten, totals, touched
from examples.top_sellers.tables import PRODUCTS, TOP_TEN, TOTALS, UNITS
from tidemark.contract.table import Table

MIDNIGHT = datetime(2026, 5, 1, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return MIDNIGHT + timedelta(minutes=minutes)


def table(of: Table, *rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{"updated_at": MIDNIGHT, **row} for row in rows], of.arrow_schema)


def units(*rows: tuple[float, str, int]) -> pa.Table:
    return table(UNITS, *({"minute": at(m), "product": p, "units": n} for m, p, n in rows))


def catalogue(*rows: tuple[float, str, int]) -> pa.Table:
    """(minute from which it holds, product, cents)"""
    return table(
        PRODUCTS,
        *({"valid_from": at(m), "product": p, "price_cents": c, "name": f"{p} for {c}"} for m, p, c in rows),
    )


def hour(product: str, sold: int, start: float = 0) -> dict[str, Any]:
    return {
        "period": "hour",
        "window_start": at(start),
        "product": product,
        "units": sold,
        "revenue_cents": 0,
    }


def ranks(rows: pa.Table) -> list[tuple[int, str]]:
    return sorted((row["rank"], row["product"]) for row in rows.to_pylist())


def revenue(rows: pa.Table, period: str) -> dict[tuple[datetime, str], tuple[int, int]]:
    return {
        (row["window_start"].astimezone(UTC), row["product"]): (row["units"], row["revenue_cents"])
        for row in rows.to_pylist()
        if row["period"] == period
    }


def test_a_sale_has_the_price_of_its_minute() -> None:
    prices = catalogue((-60, "a", 100), (30, "a", 200), (90, "a", 1_000))
    sold = units((29, "a", 1), (30, "a", 1), (59, "a", 2), (60, "a", 3))
    result = totals(sold, prices)
    assert revenue(result, "hour") == {(at(0), "a"): (4, 700), (at(60), "a"): (3, 600)}
    assert revenue(result, "day") == {(at(0), "a"): (7, 1_300)}


def test_a_product_without_a_price_counts_without_revenue() -> None:
    result = totals(units((5, "a", 2), (5, "b", 1)), catalogue((10, "a", 100)))
    assert revenue(result, "hour") == {(at(0), "a"): (2, 0), (at(0), "b"): (1, 0)}
    assert revenue(totals(units((5, "a", 2)), catalogue()), "hour") == {(at(0), "a"): (2, 0)}


def test_midnight_parts_the_days() -> None:
    result = totals(units((-1, "a", 1), (0, "a", 1)), catalogue((-600, "a", 5)))
    assert revenue(result, "day") == {(at(-1440), "a"): (1, 5), (at(0), "a"): (1, 5)}


def test_equals_share_a_rank_and_the_next_comes_after_them() -> None:
    rows = table(TOTALS, hour("a", 5), hour("b", 7), hour("c", 5), hour("d", 1))
    assert ranks(top_ten(rows, catalogue())) == [(1, "b"), (2, "a"), (2, "c"), (4, "d")]


def test_all_who_share_the_tenth_rank_are_in() -> None:
    sellers = [hour(f"p{number:02}", 100 - number) for number in range(9)]
    tied = [hour(name, 50) for name in ("x", "y", "z")]
    result = ranks(top_ten(table(TOTALS, *sellers, *tied, hour("w", 49)), catalogue()))
    assert result[8:] == [(9, "p08"), (10, "x"), (10, "y"), (10, "z")]


def test_what_was_all_given_back_is_no_seller() -> None:
    assert ranks(top_ten(table(TOTALS, hour("a", 0), hour("b", -2)), catalogue())) == []


def test_the_name_is_the_last_of_the_period() -> None:
    names = catalogue((-60, "a", 1), (59, "a", 2), (60, "a", 3))
    rows = table(TOTALS, hour("a", 1), hour("a", 1, start=60), hour("b", 1))
    actual = {
        (r["window_start"].astimezone(UTC), r["product"]): r["name"] for r in top_ten(rows, names).to_pylist()
    }
    assert actual == {(at(0), "a"): "a for 2", (at(60), "a"): "a for 3", (at(0), "b"): None}


def test_a_change_writes_what_differs_and_deletes_what_dropped_out() -> None:
    before = table(
        TOP_TEN,
        {**hour("a", 3), "rank": 1, "name": "A"},
        {**hour("b", 2), "rank": 2, "name": "B"},
        {**hour("c", 1), "rank": 3, "name": "C"},
    )
    after = table(
        TOP_TEN,
        {**hour("a", 3), "rank": 1, "name": "A"},
        {**hour("c", 1), "rank": 2, "name": "C"},
        {**hour("d", 1), "rank": 2, "name": "D"},
    )
    result = change(before, after)
    assert result.deleted is not None
    assert [row["product"] for row in result.rows.to_pylist()] == ["c", "d"]
    assert [row["product"] for row in result.deleted.to_pylist()] == ["b"]


def test_a_batch_touches_the_days_of_its_sales_and_of_all_that_has_another_price() -> None:
    result = touched(units((5, "a", 1)), units((-5, "b", 3)))
    assert result.products == {"a", "b"}
    assert result.days == {at(0), at(-1440)}
    assert result.windows == [
        [("window_start", ">=", at(-1440)), ("window_start", "<", at(0))],
        [("window_start", ">=", at(0)), ("window_start", "<", at(1440))],
    ]
