"""silver.session_goals: the goals that each session reaches."""

from __future__ import annotations

from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.goals import SessionGoals
from tidemark.figures.declared import recorded

TABLE = Table(
    name="silver.session_goals",
    about="One row per session of silver.sessions, if there are goals in tidemark.toml; and one row, without pageviews,"
    " per match that is no pageview and has no session yet.",
    kind="upsert",
    key=("session_id",),
    time="start_time",
    reads="silver.requests",
    expects=(
        Expectation(
            "session_or_match", (column("pageviews") >= 1) | (column("end_time") == column("start_time")),
            "pageviews", "What has no pageviews is a match at one time.",
        ),
    ),
    aggregation=lambda meaning: SessionGoals(meaning.session_gap_seconds, meaning.goals),
    quiet=True,
    reader_settings=lambda settings: {"goals": recorded(settings.meaning.goals)},
    columns=(
        Column("session_id", "string", "Id of the session, see silver.sessions; a match has one of the same form."),
        Column("site", "string", "Site."),
        Column("visitor_id", "string", "Visitor, see silver.requests."),
        Column("start_time", "timestamp", "First pageview, or time of the match."),
        Column("end_time", "timestamp", "Last pageview, or time of the match."),
        Column("pageviews", "long", "Number of pageviews; 0 for a match without session."),
        Column("entry_page", "string", "Path of the first pageview, see silver.sessions."),
        Column("entry_query", "string", "Its query."),
        Column("entry_referrer", "string", "Its referrer."),
        Column("channel", "string", "Channel of the session."),
        Column("source", "string", "Its source."),
        Column("medium", "string", "Its utm_medium."),
        Column("campaign", "string", "Its utm_campaign."),
        Column("referrer_host", "string", "Its referring host."),
        Column("goals", "strings", "Definition (a hash) and name of each goal with a match, separated by a space."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)  # fmt: skip
