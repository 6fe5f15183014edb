"""Counts the matches of a definition in a form before it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tidemark.figures import conditions, funnels, goals
from tidemark.figures.declared import Declared, Kind, funnels_of, goals_of
from tidemark.figures.extents import Extent
from tidemark.figures.query import count, query
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, filters_of
from tidemark.figures.silver import REQUESTS
from tidemark.figures.text import several

PREVIEWED: tuple[Kind, ...] = ("goals", "funnels", "segments")
DAYS = 7


def words(rows: Rows, kind: Kind, values: Mapping[str, Any], known: Declared, extent: Extent) -> str:
    """Says how often a definition of one of the kinds PREVIEWED matches in the last seven days of data. `values` are
    its settings, `known` the declarations beside it. Raises SettingError or ReadError."""
    if extent.newest is None:
        return "There is no data yet, so nothing can be counted."
    selection = Selection(start=extent.newest - timedelta(days=DAYS))
    of = f"of the last {DAYS} days of data"
    if kind == "goals":
        goal = goals_of({"goal": values}, "the form")["goal"]
        row = goals.goals(rows, selection, {"goal": goal}).iloc[0]
        return f"Matches {several(row['completions'], 'request')} in {several(row['conversions'], 'session')} {of}."
    if kind == "funnels":
        table = funnels_of({"funnel": values}, "the form")["funnel"]
        definition = known.built(table.steps, table.scope, table.within)
        *counts, last = funnels.funnel(rows, selection, definition).counts
        steps = [*(f"{n:,}" for n in counts), several(last, table.scope)]
        return f"{', then '.join(steps)} took the steps {of}."
    chosen = replace(selection, filters=filters_of(values.get("filter", ())))
    number = rows(query(REQUESTS, {"requests": count()}, conditions.of_lines(chosen)))["requests"].iloc[0]
    return f"Matches {several(int(number), 'request')} {of}."
