"""Funnels, retention and paths as SQL for DuckDB: counted there as a reader would count them, from silver alone."""

from __future__ import annotations

from dataclasses import replace

from tidemark.figures import conditions, silver
from tidemark.figures.declared import Definition
from tidemark.figures.definitions import text
from tidemark.figures.dialects import DuckDB
from tidemark.figures.paths import LEVELS, SHOWN
from tidemark.figures.periods import Every
from tidemark.figures.query import query
from tidemark.figures.selection import Selection
from tidemark.figures.silver import PEOPLE, VIEW

_VISITOR = "site, visitor_id"
_EARLIER = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


def funnel(selection: Selection, definition: Definition, root: str) -> str:
    """One row per step: its name, how many took it, and the median seconds from the first step."""
    rows = [
        f"SELECT {k} AS step, {DuckDB().value(step.name)} AS name, count(took{k}) AS count, "
        f"median(took{k}) / 1e6 AS median_seconds FROM walks"
        for k, step in enumerate(definition.steps, 1)
    ]
    return f"{_walks(selection, definition, root)}\n" + "\nUNION ALL ".join(rows) + "\nORDER BY step;\n"


def funnel_by(selection: Selection, definition: Definition, label: str, root: str) -> str:
    """One row per value of a label: how many took each step. The label is that of the session, or of the session in
    which a visitor took the first step."""
    steps = range(1, len(definition.steps) + 1)
    counts = ", ".join(f"count(took{k}) AS step{k}" for k in steps)
    if definition.visitor:
        kept = conditions.reaching(selection)
        known = text(query(silver.SESSIONS, ["site", "visitor_id", "start_time", label], kept), root)
        begun = ", ".join(f"begun{k}" for k in reversed(steps))
        joined = f"""walks ASOF LEFT JOIN sessions
  ON walks.site = sessions.site AND walks.visitor_id = sessions.visitor_id
  AND coalesce({begun}) >= sessions.start_time"""
    else:
        where = [*conditions.within(selection, "start_time")]
        known = text(query(silver.SESSIONS, ["session_id", label], where), root)
        joined = "walks LEFT JOIN sessions USING (session_id)"
    return f"""{_walks(selection, definition, root)},
sessions AS ({_indented(known)})
SELECT coalesce({label}, '') AS {label}, {counts}
FROM {joined}
WHERE took1 IS NOT NULL GROUP BY 1 ORDER BY step1 DESC, 1;
"""


def lost(selection: Selection, definition: Definition, limit: int, root: str) -> str:
    """One row per step but the last and page: how many took the step, but not the next one, and viewed this page next.
    `path` is NULL for those who viewed none."""
    who = ("site", "visitor_id") if definition.visitor else ("session_id",)
    same = " AND ".join(f"views.{name} = walks.{name}" for name in who)
    rows = []
    for k in range(1, len(definition.steps)):
        following = f"{same} AND views.n = walks.at{k} + 1"
        if definition.visitor:
            seconds = round(definition.within.total_seconds())
            following += f" AND views.event_time - walks.begun{k} <= to_seconds({seconds})"
        rows.append(
            f"SELECT {k} AS step, path, count(*) AS count FROM walks\nLEFT JOIN views ON {following}\n"
            f"WHERE took{k} IS NOT NULL AND took{k + 1} IS NULL GROUP BY path"
        )
    every = "\nUNION ALL ".join(rows)
    return f"""{_walks(selection, definition, root)},
lost AS ({_indented(every)})
SELECT * FROM lost
QUALIFY row_number() OVER (PARTITION BY step ORDER BY count DESC, coalesce(path, '')) <= {limit}
ORDER BY step, count DESC, path;
"""


def _walks(selection: Selection, definition: Definition, root: str) -> str:
    """The walks of a funnel, with how long each step was after the first (`took1` and so on; NULL if it was not taken),
    and the number of its pageview and the start of its chain (`at1`, `begun1`).

    `start1` is the time of a first step, `start2` the latest start of a chain that takes the second step at this row,
    and so on.
    """
    who = _VISITOR if definition.visitor else "session_id"
    steps = range(1, len(definition.steps) + 1)
    until = ""
    if definition.visitor and selection.end is not None:
        until = f" AND event_time < {DuckDB().value(selection.end)}"
        selection = replace(selection, end=selection.end + definition.within)
    views = _pageviews(selection, root) if definition.visitor else _steps(selection, root)
    first = f"CASE WHEN {_matches(definition.steps[0].pattern)}{until} THEN event_time END"
    parts = [f"views AS ({_indented(views)})", f"step1 AS (SELECT *, {first} AS start1 FROM views)"]
    for number, step in enumerate(definition.steps[1:], 2):
        latest = f"max(start{number - 1}) OVER (PARTITION BY {who} ORDER BY n {_EARLIER})"
        kept = _matches(step.pattern)
        if definition.visitor:
            seconds = round(definition.within.total_seconds())
            kept += f" AND event_time - {latest} <= to_seconds({seconds})"
        chain = f"CASE WHEN {kept}\n       THEN {latest} END"
        parts.append(f"step{number} AS (SELECT *, {chain} AS start{number} FROM step{number - 1})")
    origin = "start{0}" if definition.visitor else "(min(start1) OVER (PARTITION BY session_id))"
    took = ",\n  ".join(
        f"arg_min(epoch_us(event_time) - epoch_us({origin.format(k)}), n) FILTER (start{k} IS NOT NULL) AS took{k}, "
        f"min(n) FILTER (start{k} IS NOT NULL) AS at{k}, "
        f"arg_min(start{k}, n) FILTER (start{k} IS NOT NULL) AS begun{k}"
        for k in steps
    )
    if not definition.visitor:
        parts.append(f"begun AS (SELECT *, {origin} AS begun FROM step{steps[-1]})")
        took = took.replace(origin, "begun")
    source = f"step{steps[-1]}" if definition.visitor else "begun"
    parts.append(f"walks AS (\n  SELECT {who},\n  {took}\n  FROM {source} GROUP BY ALL)")
    return "WITH " + ",\n".join(parts)


def retention(selection: Selection, by: Every, root: str) -> str:
    """One row per cohort and later period: `visitors` of the cohort that came in it. Periods are of UTC."""
    everything = Selection(selection.site, filters=selection.filters)
    where = (*conditions.of_lines(everything), PEOPLE)
    lines = text(query(silver.REQUESTS, ["site", "visitor_id", "event_time"], where), root)
    return f"""WITH lines AS ({_indented(lines)}),
came AS (SELECT DISTINCT {_VISITOR}, date_trunc('{by}', event_time AT TIME ZONE 'UTC')::DATE AS period FROM lines),
first AS (SELECT *, min(period) OVER (PARTITION BY {_VISITOR}) AS cohort FROM came)
SELECT cohort, period, count(*) AS visitors FROM first GROUP BY ALL ORDER BY ALL;
"""


def paths(
    selection: Selection, page: str | None, root: str, *, backward: bool = False, folded: bool = False
) -> str:
    """One row per level and page, or folder if `folded`: the most frequent ones; `left` counts the walks that ended
    before."""
    views = _steps(selection, root)
    if folded:
        folder = r"regexp_replace(path, '^(/[^/]+/)[\s\S]+$', '\1*')"
        views = f"SELECT session_id, event_time, {folder} AS path, n FROM (\n{views})"
    start = "1" if page is None else f"min(visit) FILTER ({_matches(page)})"
    level = "begun - visit" if backward else "visit - begun"
    return f"""WITH views AS ({_indented(views)}),
changed AS (
  SELECT *, lag(path) OVER (PARTITION BY session_id ORDER BY n) IS DISTINCT FROM path AS is_visit FROM views),
visits AS (
  SELECT session_id, path, row_number() OVER (PARTITION BY session_id ORDER BY n) AS visit FROM changed WHERE is_visit),
starts AS (SELECT session_id, {start} AS begun FROM visits GROUP BY 1),
placed AS (
  SELECT {level} AS level, path FROM visits JOIN starts USING (session_id) WHERE level BETWEEN 0 AND {LEVELS - 1}),
counted AS (SELECT level, path, count(*) AS count FROM placed GROUP BY 1, 2)
SELECT level, path, count, sum(count) OVER (PARTITION BY level) AS of_level FROM counted
QUALIFY row_number() OVER (PARTITION BY level ORDER BY count DESC, path) <= {SHOWN} ORDER BY level, count DESC, path;
"""


def _pageviews(selection: Selection, root: str) -> str:
    where = (*conditions.of_lines(selection), VIEW)
    names = ("site", "visitor_id", "event_time", "path", "query", "referrer")
    lines = text(query(silver.REQUESTS, names, where), root)
    order = "row_number() OVER (PARTITION BY site, visitor_id ORDER BY event_time, path, query, referrer)"
    return f"SELECT *, {order} AS n FROM (\n{lines})"


def _steps(selection: Selection, root: str) -> str:
    """The pageviews of the sessions that started in the range, numbered."""
    steps = text(
        query(silver.STEPS, ["session_id", "steps"], conditions.within(selection, "start_time")), root
    )
    if selection.filters:
        kept = text(query(silver.SESSIONS, ["session_id"], conditions.of_sessions(selection)), root)
        steps = f"SELECT * FROM (\n{steps})\nWHERE session_id IN (\n{kept})"
    return f"""SELECT session_id, step.time AS event_time, step.path AS path, n FROM (
SELECT session_id, unnest(steps) AS step, generate_subscripts(steps, 1) AS n FROM (
{steps}))"""


def _matches(pattern: str) -> str:
    """A pattern of a path as a condition."""
    if "*" not in pattern:
        return f"path = {DuckDB().value(pattern)}"
    special = any(sign in pattern for sign in "%_\\")
    for sign in "\\%_" if special else "":
        pattern = pattern.replace(sign, "\\" + sign)
    return f"path LIKE {DuckDB().value(pattern.replace('*', '%'))}" + (r" ESCAPE '\'" if special else "")


def _indented(statement: str) -> str:
    return "\n  " + statement.replace("\n", "\n  ")
