"""Sales joined with a changing catalogue: totals per product, and exact top tens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.kit.job import Job, Sources
from examples.kit.mergeable import mergeable
from examples.kit.sinks import Upsert, same_windows
from examples.top_sellers import ranking
from examples.top_sellers.tables import PRODUCTS, TABLES, TOP_TEN, TOTALS, UNITS
from examples.top_sellers.topics import CATALOGUE, SALES
from tidemark.contract.store import Commit, Condition, Store
from tidemark.contract.table import Change, Table
from tidemark.stream.query import Query


def units(sales: DataFrame) -> DataFrame:
    """Purchases and refunds to partial rows of the table of units, which add up."""
    signed = F.when(F.col("kind") == "refund", -F.col("quantity")).otherwise(F.col("quantity"))
    minute = F.date_trunc("MINUTE", "event_time").alias("minute")
    return sales.groupBy(minute, "product").agg(F.sum(signed).alias("units"))


def entries(catalogue: DataFrame) -> DataFrame:
    """News of the catalogue to rows of the table of products: of several for one time, what came last."""
    last = F.struct("record.offset", "name", "price_cents").alias("last")
    return (
        catalogue.select("product", "valid_from", last)
        .groupBy("product", "valid_from")
        .agg(F.max("last").alias("last"))
        .select("product", "valid_from", "last.name", "last.price_cents")
    )


def together(sales: DataFrame, catalogue: DataFrame) -> DataFrame:
    """The union of both streams, so that one query sees all changes."""
    return sales.unionByName(catalogue, allowMissingColumns=True)


def write(store: Store, batch: DataFrame, commit: Commit) -> None:
    """Commits the batch's changes, table by table. Each table is computed from the current previous ones,
    so a batch that runs again after a crash gives the same result."""
    sold = units(batch.where(F.col("record.topic") == SALES.topic)).toArrow()
    changed = entries(batch.where(F.col("record.topic") == CATALOGUE.topic)).toArrow()
    Upsert(UNITS, lambda rows: rows, mergeable(UNITS.key, ["units"], {}), same_windows).commit(
        store, sold, commit
    )
    store.upsert(PRODUCTS, Change(_stamped(changed, PRODUCTS)), commit)

    touched = ranking.touched(sold, _units_since(store, changed))
    if not touched.days:
        return
    catalogue = store.read(PRODUCTS)
    totals = ranking.totals(store.read(UNITS, touched.units), catalogue)
    store.upsert(TOTALS, Change(_stamped(totals, TOTALS)), commit)
    top = ranking.top_ten(store.read(TOTALS, touched.windows), catalogue)
    before = store.read(TOP_TEN, touched.windows)
    store.upsert(TOP_TEN, ranking.change(before, _stamped(top, TOP_TEN)), commit)


def queries(sources: Sources) -> Sequence[Query]:
    """One query over both topics."""
    news = together(sources.events(SALES), sources.events(CATALOGUE))
    return [Query("sales", lambda: news, partial(write, sources.store), commits=(UNITS, PRODUCTS))]


def _units_since(store: Store, changed: pa.Table) -> pa.Table:
    """The sales of products since the time from which on their catalogue entry has changed."""
    where: list[list[Condition]] = [
        [("product", "=", row["product"]), ("minute", ">=", row["valid_from"])] for row in changed.to_pylist()
    ]
    return store.read(UNITS, where) if where else UNITS.arrow_schema.empty_table()


def _stamped(rows: pa.Table, table: Table) -> pa.Table:
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC"))
    return rows.append_column("updated_at", pa.repeat(now, rows.num_rows)).select(table.column_names)


JOB = Job("top_sellers", version=1, inputs=(SALES, CATALOGUE), queries=queries, tables=TABLES)
