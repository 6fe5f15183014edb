"""gold.completions: requests of people that match a goal, per hour."""

from __future__ import annotations

from gold._columns import DEFINITION, HOUR, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.completions import Completions

TABLE = counted(
    "gold.completions",
    "One row per site, hour, goal of tidemark.toml and its definition, with requests of people that match.",
    Completions.of(HOUR, {}),
    {
        "goal": "Name of the goal.",
        "definition": DEFINITION,
        "completions": "Requests of people that match.",
    },
    expects=(Expectation("completed", column("completions") >= 1, "completions", "A row has a completion."),),
    aggregation=lambda meaning: Completions.of(HOUR, meaning.goals),
    quiet=True,
)
