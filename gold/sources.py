"""gold.sources: sessions and their visitors per hour by where they come from."""

from __future__ import annotations

from gold._columns import HOUR, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, Sum, Text
from tidemark.engine.revisions import RevisedCounts

COUNTS = RevisedCounts(
    seconds=HOUR,
    time="start_time",
    by=tuple(map(Text, ("channel", "source", "medium", "campaign"))),
    sums={"sessions": ROWS, "bounces": Sum("bounced"), "pageviews": Sum("pageviews")},
    rows="sessions",
    visitors="all",
)

TABLE = counted(
    "gold.sources",
    "One row per site, hour in which a session starts, and channel, source, medium and campaign of its entry.",
    COUNTS,
    {
        "channel": "Channel of the sessions, see silver.sessions; empty if none.",
        "source": "Source, likewise.",
        "medium": "utm_medium, likewise.",
        "campaign": "utm_campaign, likewise.",
        "sessions": "Sessions that start in the hour.",
        "bounces": "Those of one pageview.",
        "pageviews": "Pageviews of the sessions, later hours included.",
        "visitors": "Distinct visitors of the sessions.",
    },
    expects=(
        Expectation(
            "parts_of_sessions",
            (column("visitors") >= 1)
            & (column("visitors") <= column("sessions"))
            & (column("bounces") <= column("sessions"))
            & (column("sessions") <= column("pageviews")),
            "sessions",
            "Every session has a visitor and a pageview, and bounces or not.",
        ),
    ),
    reads="silver.sessions",
    follows=True,
)
