"""A selection's filters as conditions on rows: on lines (silver.requests), on sessions, on the keys of gold tables.

A filter of a line's field keeps the lines that pass, so that figures of lines equal those of an import of only these
lines. Of sessions, a field that a visitor has once keeps the visitor's sessions; channel, source and entry_page keep
whole sessions; any other field keeps the sessions with at least one pageview that passes all filters of such fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tidemark.figures import longer
from tidemark.figures.query import (
    AnyOf,
    Condition,
    Exists,
    Expression,
    HasElement,
    Related,
    Where,
    as_text,
    lowered,
)
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Filter, Selection
from tidemark.figures.silver import REQUESTS, SESSIONS, STEPS, VIEW

# The fields that silver.sessions has itself.
OF_VISITOR = frozenset({"country", "device", "browser", "os"})
# Others that a visitor has once.
OF_ADDRESS = frozenset({"network", "as_org", "city"})
OF_SESSION = frozenset({"channel", "source", "campaign", "entry_page"})
# What a line has under another name, or in another form, than sessions and gold.
OF_LINE: Mapping[str, Expression] = {"campaign": lowered("utm_campaign")}

_SAME_VISITOR: Related = (("site", "=", "site"), ("visitor_id", "=", "visitor_id"))
# How a session relates to its lines.
DURING: Related = (*_SAME_VISITOR, ("start_time", "<=", "event_time"), ("end_time", ">=", "event_time"))


def of_lines(selection: Selection) -> tuple[Condition, ...]:
    """Conditions on rows of silver.requests. A filter of the entry page keeps the lines during such sessions."""
    lines = [f for f in selection.filters if f.field != "entry_page"]
    entries = [f for f in selection.filters if f.field == "entry_page"]
    sessions = (Exists(SESSIONS, DURING, passing(entries)),) if entries else ()
    return (*within(selection, "event_time"), *passing(lines, OF_LINE), *sessions)


def of_sessions(selection: Selection, rows: Rows | None = None) -> tuple[Condition, ...]:
    """Conditions on rows of silver.sessions that started in the range; cheaper ones where `rows` tell that these do."""
    own = [f for f in selection.filters if f.field in OF_VISITOR | OF_SESSION]
    others = [f for f in selection.filters if f.field not in OF_VISITOR | OF_SESSION]
    kept = (*within(selection, "start_time"), *passing(own))
    return (*kept, with_pageview(selection, others, rows)) if others else kept


def with_pageview(selection: Selection, filters: Sequence[Filter], rows: Rows | None = None) -> Condition:
    """Keeps the sessions of a selection that have a pageview which passes all filters."""
    if rows and all(f.field == "path" for f in filters):
        started, passed = within(selection, "start_time"), passing(filters)
        known = longer.sessions(rows, started, started)
        if known is not None:
            first = HasElement("session_id", STEPS, "steps", passed, started)
            ids = tuple(longer.later(rows, known, passed, started))
            return AnyOf((first, Where("session_id", "in", ids))) if ids else first
    during: Related = (*_SAME_VISITOR, ("event_time", ">=", "start_time"), ("event_time", "<=", "end_time"))
    # The pageviews of these sessions do not lie before the range; where it ends they may go on.
    bound = () if selection.start is None else (Where("event_time", ">=", selection.start),)
    return Exists(REQUESTS, during, (*bound, VIEW, *passing(filters)))


def within(selection: Selection, time: str, until: str = "") -> tuple[Where, ...]:
    """The selection's site and range: of a `time`, or of what lasts from it `until` another one."""
    start = () if selection.start is None else (Where(until or time, ">=", selection.start),)
    end = () if selection.end is None else (Where(time, "<", selection.end),)
    return (*of_site(selection), *start, *end)


def reaching(selection: Selection) -> tuple[Where, ...]:
    """The selection's site, and the sessions that reach into its range."""
    return within(selection, "start_time", "end_time")


def of_site(selection: Selection) -> tuple[Where, ...]:
    """The selection's site."""
    return () if selection.site is None else (Where("site", "=", selection.site),)


def passing(
    filters: Sequence[Filter], columns: Mapping[str, Expression] = MappingProxyType({})
) -> tuple[Condition, ...]:
    """Conditions on the `columns` of the filters' fields, or on those with the fields' names, where NULL counts as the
    empty text."""
    return tuple(_passing(f, columns.get(f.field, f.field)) for f in filters)


def _passing(each: Filter, column: str | Expression) -> Condition:
    number = each.field == "status"
    # Gold has 0 for a missing status, silver NULL.
    values = tuple(int(v or 0) if number else v for v in each.values)
    null = Where(column, "is null")
    match each.operator:
        case "is":
            kept = Where(column, "in", values)
            return AnyOf((kept, null)) if "" in each.values else kept
        case "is not":
            kept = Where(column, "not in", values)
            return kept if "" in each.values else AnyOf((kept, null))
        case _:
            column = as_text(each.field) if number else column
            conditions = tuple(Where(column, each.operator, v) for v in each.values)
            return conditions[0] if len(conditions) == 1 else AnyOf(conditions)


def bots_of(each: Filter) -> bool | None:
    """Whether a filter keeps exactly the bots (True) or exactly the people (False); None for any other filter."""
    if each.field != "bot_kind" or each.values != ("",):
        return None
    return each.operator == "is not"
