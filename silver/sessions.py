"""silver.sessions: sessions of each visitor."""

from __future__ import annotations

from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.sessions import Sessions

TABLE = Table(
    name="silver.sessions",
    about="One row per session: a visitor's pageviews on a site with gaps shorter than the session gap.",
    kind="upsert",
    key=("session_id",),
    time="start_time",
    reads="silver.requests",
    expects=(
        Expectation(
            "ends_after_start", column("end_time") >= column("start_time"),
            "end_time", "A session does not end before it starts.",
        ),
        Expectation(
            "has_pageviews", column("pageviews") >= 1, "pageviews", "A session has at least one pageview.",
        ),
        Expectation(
            "bounce_is_single", column("bounced") == (column("pageviews") == 1),
            "bounced", "A bounce is a session of one pageview.",
        ),
    ),
    aggregation=lambda meaning: Sessions(meaning.session_gap_seconds),
    reader_settings=lambda settings: {"gap_seconds": settings.meaning.session_gap_seconds},
    columns=(
        Column("session_id", "string", "Hash of site, visitor and start, independent of the order of arrival."),
        Column("site", "string", "Site."),
        Column("visitor_id", "string", "Visitor, see silver.requests."),
        Column("country", "string", "Country of the visitor."),
        Column("start_time", "timestamp", "First pageview."),
        Column("end_time", "timestamp", "Last pageview."),
        Column("duration_seconds", "long", "Seconds between them."),
        Column("pageviews", "long", "Number of pageviews."),
        Column(
            "entry_page", "string",
            "Path of the first pageview; of several at the same time, the first by path, query and referrer.",
        ),
        Column("entry_query", "string", "Its query; NULL if there is none."),
        Column("entry_referrer", "string", "Its referring address; NULL if none was sent."),
        Column("exit_page", "string", "Path of the last pageview; the largest of several at the same time."),
        Column("bounced", "boolean", "Whether the session has only one pageview."),
        Column("closed", "boolean", "Whether the site's newest event is more than the session gap past the end."),
        Column("browser", "string", "Browser family."),
        Column("os", "string", "Operating system family."),
        Column("device", "string", "desktop, mobile, tablet or other."),
        Column("channel", "string", "Channel of the first pageview; direct where that is internal."),
        Column("source", "string", "Source of the first pageview, see silver.requests; empty if direct or internal."),
        Column("medium", "string", "Its utm_medium in lower case; empty if none."),
        Column("campaign", "string", "Its utm_campaign in lower case; empty if none."),
        Column("referrer_host", "string", "Its referring host."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)  # fmt: skip
