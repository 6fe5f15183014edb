"""The job's tables. Each is a function of the previous ones, independent of the order of events."""

from __future__ import annotations

from tidemark.contract.table import Column, Table

TOP = 10

PRODUCTS = Table(
    name="top_sellers.products",
    about="The catalogue: one row per product and time from which its name and price hold.",
    kind="upsert",
    key=("product", "valid_from"),
    time="",
    reads="catalogue",
    columns=(
        Column("product", "string", "Product."),
        Column("valid_from", "timestamp", "From when on this holds, a whole minute."),
        Column("name", "string", "What it is called."),
        Column("price_cents", "long", "What one costs."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)
UNITS = Table(
    name="top_sellers.units",
    about="One row per product and minute: what was sold and not given back.",
    kind="upsert",
    key=("minute", "product"),
    time="minute",
    reads="sales",
    columns=(
        Column("minute", "timestamp", "Minute of the purchase."),
        Column("product", "string", "Product."),
        Column("units", "long", "Units bought, less those given back."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)
_WINDOW = (
    Column("period", "string", "`hour` or `day`."),
    Column("window_start", "timestamp", "Start of the hour or day, UTC."),
    Column("product", "string", "Product."),
    Column("units", "long", "Units bought, less those given back."),
    Column("revenue_cents", "long", "The same at the price of their minute; nothing while it is unknown."),
)
TOTALS = Table(
    name="top_sellers.totals",
    about="One row per product and hour or day.",
    kind="upsert",
    key=("period", "window_start", "product"),
    time="window_start",
    reads="top_sellers.units, top_sellers.products",
    columns=(*_WINDOW, Column("updated_at", "timestamp", "When the row last changed.")),
)
TOP_TEN = Table(
    name="top_sellers.top_ten",
    about="The products that sold most in an hour or day: ranks 1 to 10, all of those that share a rank.",
    kind="upsert",
    key=("period", "window_start", "product"),
    time="window_start",
    reads="top_sellers.totals, top_sellers.products",
    columns=(
        *_WINDOW,
        Column(
            "rank", "long", "1 for most units; equals share a rank, and the next one comes after them all."
        ),
        Column(
            "name", "string", "What the product was called last in the period; null while that is unknown."
        ),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)
TABLES = (PRODUCTS, UNITS, TOTALS, TOP_TEN)
