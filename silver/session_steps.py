"""silver.session_steps: the pages of each session, in order."""

from __future__ import annotations

from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.steps import SessionSteps
from tidemark.figures.silver import MOST_STEPS

TABLE = Table(
    name="silver.session_steps",
    about="One row per session of silver.sessions: its pageviews in order of time, then path.",
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
    ),
    aggregation=lambda meaning: SessionSteps(meaning.session_gap_seconds),
    columns=(
        Column("session_id", "string", "Id of the session, see silver.sessions."),
        Column("site", "string", "Site."),
        Column("visitor_id", "string", "Visitor, see silver.requests."),
        Column("start_time", "timestamp", "First pageview."),
        Column("end_time", "timestamp", "Last pageview."),
        Column("pageviews", "long", f"Number of pageviews, of which the first {MOST_STEPS} are steps."),
        Column("steps", "steps", "Time and path of each pageview."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)  # fmt: skip
