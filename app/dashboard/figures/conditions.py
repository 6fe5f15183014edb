"""A selection's filters as conditions on rows: on lines (silver.requests), on sessions, on the keys of gold tables.

A filter of a line's field keeps the lines that pass, so that figures of lines equal those of an import of only these
lines. Of sessions, a field that a visitor has once keeps the visitor's sessions; channel, source and entry_page keep
whole sessions; any other field keeps the sessions with at least one pageview that passes all filters of such fields.
"""

from __future__ import annotations

from collections.abc import Sequence

from .query import AllOf, AnyOf, Condition, Exists, Expression, HasElement, Where, as_text, count, query
from .rows import Rows
from .selection import Filter, Selection

REQUESTS = "silver/requests"
SESSIONS = "silver/sessions"
STEPS = "silver/session_steps"
# silver.session_steps has so many of a session's pageviews.
MOST_STEPS = 200
# More sessions with more pageviews are not looked at one by one.
MOST_LONGER = 100
# The fields that silver.sessions has itself.
OF_VISITOR = frozenset({"country", "device", "browser", "os"})
OF_SESSION = frozenset({"channel", "source", "entry_page"})

_SAME_VISITOR = (("site", "=", "site"), ("visitor_id", "=", "visitor_id"))
# How a session relates to its lines.
DURING = (*_SAME_VISITOR, ("start_time", "<=", "event_time"), ("end_time", ">=", "event_time"))


def of_lines(selection: Selection) -> tuple[Condition, ...]:
    """Conditions on rows of silver.requests. A filter of the entry page keeps the lines during such sessions."""
    lines = [f for f in selection.filters if f.field != "entry_page"]
    entries = [f for f in selection.filters if f.field == "entry_page"]
    sessions = (Exists(SESSIONS, DURING, passing(entries)),) if entries else ()
    return (*within(selection, "event_time"), *passing(lines), *sessions)


def of_sessions(selection: Selection, rows: Rows | None = None) -> tuple[Condition, ...]:
    """Conditions on rows of silver.sessions that started in the range; cheaper ones where `rows` tell that these do."""
    own = [f for f in selection.filters if f.field in OF_VISITOR | OF_SESSION]
    others = [f for f in selection.filters if f.field not in OF_VISITOR | OF_SESSION]
    kept = (*within(selection, "start_time"), *passing(own))
    return (*kept, with_pageview(selection, others, rows)) if others else kept


def with_pageview(selection: Selection, filters: Sequence[Filter], rows: Rows | None = None) -> Condition:
    """Keeps the sessions of a selection that have a pageview which passes all filters."""
    if rows and all(f.field == "path" for f in filters):
        longer = _longer(selection, filters, rows)
        if longer is not None:
            started = within(selection, "start_time")
            among_first = HasElement("session_id", STEPS, "steps", passing(filters), started)
            return AnyOf((among_first, Where("session_id", "in", longer))) if longer else among_first
    during = (*_SAME_VISITOR, ("event_time", ">=", "start_time"), ("event_time", "<=", "end_time"))
    # The pageviews of these sessions do not lie before the range; where it ends they may go on.
    bound = () if selection.start is None else (Where("event_time", ">=", selection.start),)
    return Exists(REQUESTS, during, (*bound, Where("pageview", "=", True), *passing(filters)))


def _longer(selection: Selection, filters: Sequence[Filter], rows: Rows) -> tuple[str, ...] | None:
    """The sessions of which silver.session_steps does not have every pageview, and which have one that passes all
    filters; None if there are too many of them, or if the table does not have every session yet."""
    started = within(selection, "start_time")
    if rows.reader.version(STEPS) is None:
        return None
    numbers = {"sessions": count(), "longer": count(Where("pageviews", ">", MOST_STEPS))}
    sessions, longer = rows(query(SESSIONS, numbers, started)).iloc[0]
    if longer > MOST_LONGER or sessions != rows(query(STEPS, {"n": count()}, started))["n"].iloc[0]:
        return None
    if not longer:
        return ()
    columns = ("session_id", "site", "visitor_id", "start_time", "end_time")
    found = rows(query(SESSIONS, columns, (*started, Where("pageviews", ">", MOST_STEPS))))
    # The bounds of time let an engine skip most files.
    times = tuple(
        AllOf((Where("event_time", ">=", each.start_time), Where("event_time", "<=", each.end_time)))
        for each in found.itertuples()
    )
    people = Where("visitor_id", "in", tuple(found["visitor_id"].unique().tolist()))
    where = (AnyOf(times), people, Where("pageview", "=", True), *passing(filters))
    views = rows(query(REQUESTS, ["site", "visitor_id", "event_time"], where))
    both = found.merge(views, on=["site", "visitor_id"])
    inside = (both["event_time"] >= both["start_time"]) & (both["event_time"] <= both["end_time"])
    return tuple(both.loc[inside, "session_id"].unique().tolist())


def within(selection: Selection, time: str) -> tuple[Where, ...]:
    """The selection's site and range."""
    site = () if selection.site is None else (Where("site", "=", selection.site),)
    start = () if selection.start is None else (Where(time, ">=", selection.start),)
    end = () if selection.end is None else (Where(time, "<", selection.end),)
    return (*site, *start, *end)


def passing(filters: Sequence[Filter]) -> tuple[Condition, ...]:
    """Conditions on columns with the names of the filters' fields, where NULL counts as the empty text."""
    return tuple(_passing(f) for f in filters)


def _passing(each: Filter) -> Condition:
    number = each.field == "status"
    column: str | Expression = each.field
    values = tuple(int(v) if number else v for v in each.values if v or not number)
    null = Where(column, "is null")
    match each.operator:
        case "is":
            kept = Where(column, "in", values)
            return AnyOf((kept, null)) if "" in each.values else kept
        case "is not":
            kept = Where(column, "not in", values)
            return kept if "" in each.values else AnyOf((kept, null))
        case _:
            column = as_text(column) if number else column
            found = tuple(Where(column, each.operator, v) for v in each.values)
            return found[0] if len(found) == 1 else AnyOf(found)


def bots_of(each: Filter) -> bool | None:
    """Whether a filter keeps exactly the bots (True) or exactly the people (False); None for any other filter."""
    if each.field != "bot_kind" or each.values != ("",):
        return None
    return each.operator == "is not"
