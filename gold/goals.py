"""gold.goals: sessions that reach a goal, and their visitors, per hour and channel."""

from __future__ import annotations

from gold._columns import DEFINITION, HOUR, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.conversions import Conversions

TABLE = counted(
    "gold.goals",
    "One row per site, hour in which sessions start, goal of tidemark.toml that they reach, and channel.",
    Conversions.of(HOUR, {}),
    {
        "goal": "Name of the goal.",
        "channel": "Channel of the sessions, see silver.sessions; empty if none.",
        "conversions": "Sessions that start in the hour and have a match of the goal.",
        "visitors": "Distinct visitors of these sessions.",
        "definition": DEFINITION,
    },
    expects=(
        Expectation(
            "visitors_convert",
            (column("visitors") >= 1) & (column("visitors") <= column("conversions")),
            "conversions",
            "Every conversion is of a visitor.",
        ),
    ),
    aggregation=lambda meaning: Conversions.of(HOUR, meaning.goals),
    reads="silver.session_goals",
    follows=True,
    quiet=True,
)
