"""gold.latency: how many requests took how long, in 5-minute windows."""

from __future__ import annotations

from gold._columns import UPDATED_AT, aligned, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, WindowedCounts
from tidemark.figures.quantiles import FINE

WINDOW_SECONDS = 300
COUNTS = WindowedCounts(
    seconds=WINDOW_SECONDS,
    by=("bot", "latency_bucket"),
    where=column("latency_bucket").is_valid(),
    sums={"requests": ROWS},
    visitors="none",
)

TABLE = Table(
    name="gold.latency",
    about="One row per site, 5-minute event-time window, bot flag and bucket of latency. A bucket b stands for"
    f" 2γ^b/(γ+1) microseconds with γ = (1+α)/(1-α), so any quantile is within α = {FINE} of the truth.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    quiet=True,
    expects=(
        aligned(WINDOW_SECONDS),
        Expectation(
            "bucketed",
            (column("latency_bucket") >= 0) & (column("requests") >= 1),
            "latency_bucket",
            "A bucket is not negative, and has a request.",
        ),
    ),
    made=lambda meaning: COUNTS,
    tells=lambda settings: {"alpha": FINE, "apdex_seconds": settings.dashboard.apdex_seconds},
    columns=(
        *windowed("window, aligned to the epoch"),
        Column("bot", "boolean", "Whether the requests are those of known crawlers."),
        Column("latency_bucket", "int", "Bucket of the duration, see silver.requests."),
        Column("requests", "long", "Accepted requests with a duration in the bucket."),
        UPDATED_AT,
    ),
)  # fmt: skip
