"""gold.sources: sessions and their visitors per hour by where they come from."""

from __future__ import annotations

from gold._columns import UPDATED_AT, VISITORS_SKETCH, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Sum, Text
from tidemark.engine.revisions import RevisedCounts

WINDOW_SECONDS = 3600
COUNTS = RevisedCounts(
    seconds=WINDOW_SECONDS,
    time="start_time",
    by=tuple(map(Text, ("channel", "source", "medium", "campaign"))),
    sums={"sessions": ROWS, "bounces": Sum("bounced"), "pageviews": Sum("pageviews")},
    rows="sessions",
    visitors="all",
)

TABLE = Table(
    name="gold.sources",
    about="One row per site, hour in which a session starts, and channel, source, medium and campaign of its entry.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.sessions",
    follows=True,
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
    made=lambda meaning: COUNTS,
    columns=(
        *windowed("hour"),
        Column("channel", "string", "Channel of the sessions, see silver.sessions; empty if none."),
        Column("source", "string", "Source, likewise."),
        Column("medium", "string", "utm_medium, likewise."),
        Column("campaign", "string", "utm_campaign, likewise."),
        Column("sessions", "long", "Sessions that start in the hour."),
        Column("bounces", "long", "Those of one pageview."),
        Column("pageviews", "long", "Pageviews of the sessions, later hours included."),
        Column("visitors", "long", "Distinct visitors of the sessions."),
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)  # fmt: skip
