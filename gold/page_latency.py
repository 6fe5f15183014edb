"""gold.page_latency: how long the pages of a site took, per hour."""

from __future__ import annotations

from functools import partial

from gold._columns import UPDATED_AT, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Histogram, Text, WindowedCounts
from tidemark.figures.quantiles import COARSE, buckets
from tidemark.figures.silver import MOST_CHARACTERS

WINDOW_SECONDS = 3600
COUNTS = WindowedCounts(
    seconds=WINDOW_SECONDS,
    by=(Text("path", most=MOST_CHARACTERS),),
    where=~column("bot") & ~column("asset") & (column("status") < 400) & column("duration_us").is_valid(),
    sums={"requests": ROWS},
    histograms={
        "buckets": Histogram(
            "duration_us", f"bucket of latency, alpha {COARSE}", partial(buckets, alpha=COARSE)
        )
    },
    visitors="none",
)

TABLE = Table(
    name="gold.page_latency",
    about="One row per site, hour of event time and path of people's requests with a duration, without assets and"
    " errors. A bucket b stands for 2γ^b/(γ+1) microseconds with γ = (1+α)/(1-α), so any quantile is within α ="
    f" {COARSE} of the truth; add the buckets of several rows.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    quiet=True,
    expects=(Expectation("timed", column("requests") >= 1, "requests", "At least one request has a duration."),),
    made=lambda meaning: COUNTS,
    tells=lambda settings: {"alpha": COARSE},
    columns=(
        *windowed("hour"),
        Column("path", "string", f"Path without the query, its first {MOST_CHARACTERS} characters."),
        Column("requests", "long", "Requests with a duration."),
        Column("buckets", "counts", "From the number of a bucket to the requests whose duration is in it."),
        UPDATED_AT,
    ),
)  # fmt: skip
