"""gold.latency: how many requests took how long, in 5-minute windows."""

from __future__ import annotations

from gold._columns import FIVE_MINUTES, aligned, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, WindowedCounts
from tidemark.figures.quantiles import FINE

COUNTS = WindowedCounts(
    seconds=FIVE_MINUTES,
    by=("bot", "latency_bucket"),
    where=column("latency_bucket").is_valid(),
    sums={"requests": ROWS},
    visitors="none",
)

TABLE = counted(
    "gold.latency",
    "One row per site, 5-minute event-time window, bot flag and bucket of latency. A bucket b stands for"
    f" 2γ^b/(γ+1) microseconds with γ = (1+α)/(1-α), so any quantile is within α = {FINE} of the truth.",
    COUNTS,
    {
        "bot": "Whether the requests are those of known crawlers.",
        "latency_bucket": "Bucket of the duration, see silver.requests.",
        "requests": "Accepted requests with a duration in the bucket.",
    },
    expects=(
        aligned(FIVE_MINUTES),
        Expectation(
            "bucketed",
            (column("latency_bucket") >= 0) & (column("requests") >= 1),
            "latency_bucket",
            "A bucket is not negative, and has a request.",
        ),
    ),
    quiet=True,
    reader_settings=lambda settings: {"alpha": FINE, "apdex_seconds": settings.dashboard.apdex_seconds},
)
