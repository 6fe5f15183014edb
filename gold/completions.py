"""gold.completions: requests of people that match a goal, per hour."""

from __future__ import annotations

from gold._columns import HOUR, UPDATED_AT, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.completions import Completions

TABLE = Table(
    name="gold.completions",
    about="One row per site, hour, goal of tidemark.toml and its definition, with requests of people that match.",
    kind="upsert",
    key=("site", "window_start", "goal", "definition"),
    time="window_start",
    reads="silver.requests",
    quiet=True,
    expects=(Expectation("completed", column("completions") >= 1, "completions", "A row has a completion."),),
    aggregation=lambda meaning: Completions.of(HOUR, meaning.goals),
    columns=(
        *windowed(HOUR),
        Column("goal", "string", "Name of the goal."),
        Column(
            "definition", "string", "Hash of what a match is; a changed goal is recounted over all history."
        ),
        Column("completions", "long", "Requests of people that match."),
        UPDATED_AT,
    ),
)
