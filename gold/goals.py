"""gold.goals: sessions that reach a goal, and their visitors, per hour and channel."""

from __future__ import annotations

from gold._columns import HOUR, UPDATED_AT, VISITORS_SKETCH, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.conversions import Conversions

TABLE = Table(
    name="gold.goals",
    about="One row per site, hour in which sessions start, goal of tidemark.toml that they reach, and channel.",
    kind="upsert",
    key=("site", "window_start", "goal", "channel"),
    time="window_start",
    reads="silver.session_goals",
    follows=True,
    quiet=True,
    expects=(
        Expectation(
            "visitors_convert", (column("visitors") >= 1) & (column("visitors") <= column("conversions")),
            "conversions", "Every conversion is of a visitor.",
        ),
    ),
    aggregation=lambda meaning: Conversions.of(HOUR, meaning.goals),
    columns=(
        *windowed(HOUR),
        Column("goal", "string", "Name of the goal."),
        Column("channel", "string", "Channel of the sessions, see silver.sessions; empty if none."),
        Column("conversions", "long", "Sessions that start in the hour and have a match of the goal."),
        Column("visitors", "long", "Distinct visitors of these sessions."),
        Column("definition", "string", "Hash of what a match is; a changed goal is recounted over all history."),
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)  # fmt: skip
