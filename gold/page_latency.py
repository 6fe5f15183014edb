"""gold.page_latency: how long the pages of a site took, per hour."""

from __future__ import annotations

from functools import partial

from gold._columns import HOUR, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, Histogram, Text, WindowedCounts
from tidemark.figures.quantiles import COARSE, buckets
from tidemark.figures.silver import MOST_CHARACTERS

COUNTS = WindowedCounts(
    seconds=HOUR,
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

TABLE = counted(
    "gold.page_latency",
    "One row per site, hour of event time and path of people's requests with a duration, without assets and"
    " errors. A bucket b stands for 2γ^b/(γ+1) microseconds with γ = (1+α)/(1-α), so any quantile is within α ="
    f" {COARSE} of the truth; add the buckets of several rows.",
    COUNTS,
    {
        "path": f"Path without the query, its first {MOST_CHARACTERS} characters.",
        "requests": "Requests with a duration.",
        "buckets": "From the number of a bucket to the requests whose duration is in it.",
    },
    expects=(
        Expectation("timed", column("requests") >= 1, "requests", "At least one request has a duration."),
    ),
    quiet=True,
    reader_settings=lambda settings: {"alpha": COARSE},
)
