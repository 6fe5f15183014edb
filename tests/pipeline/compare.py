"""How each table is compared with its independent recomputation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tests.pipeline.recount import Expected, Row

Read = Callable[[str, Sequence[str]], list[Row]]
"""Rows of a table with these columns; times as epoch seconds."""


def assert_table(name: str, read: Read, expected: Expected) -> None:
    """Compares a table with its recomputation."""
    RECOUNTED[name](read, expected)


def _same(table: str, columns: Sequence[str], expected: Callable[[Expected], set[Row]]) -> Comparison:
    """Compares whole rows, of which none may occur twice."""

    def compare(read: Read, all_tables: Expected) -> None:
        result = [tuple(_plain(value) for value in row) for row in read(table, columns)]
        assert len(result) == len(set(result)), f"{table} repeats rows"
        _equal(table, columns, set(result), expected(all_tables))

    return compare


def _counted(table: str, columns: Sequence[str], expected: Callable[[Expected], set[Row]]) -> Comparison:
    """Compares how many rows there are of each kind, where rows differ by an id that is not recomputed."""

    def compare(read: Read, all_tables: Expected) -> None:
        counts = Counter(tuple(_plain(value) for value in row) for row in read(table, columns))
        _equal(table, columns, {(*row, count) for row, count in counts.items()}, expected(all_tables))

    return compare


def _equal(table: str, columns: Sequence[str], actual: set[Row], expected: set[Row]) -> None:
    differing = actual ^ expected
    assert not differing, (
        f"{table} differs in {len(differing)} rows of {', '.join(columns)}:\n"
        f"in the table only: {sorted(actual - expected, key=repr)[:3]}\n"
        f"recomputed only: {sorted(expected - actual, key=repr)[:3]}"
    )


def _plain(value: object) -> object:
    """A map as text, so that rows can be compared."""
    return " ".join(f"{key}:{count}" for key, count in sorted(value)) if isinstance(value, list) else value


def _lines(table: str, number: Callable[[Expected], int]) -> Comparison:
    """Compares the number of lines, none of which may occur twice."""

    def compare(read: Read, all_tables: Expected) -> None:
        rows = read(table, ["topic", "partition", "offset"])
        assert len(set(rows)) == len(rows) == number(all_tables), table

    return compare


def _requests(read: Read, expected: Expected) -> None:
    _lines("silver.requests", lambda e: e.accepted)(read, expected)
    _counted("silver.requests", REQUESTS, lambda e: e.requests)(read, expected)


def _steps(read: Read, expected: Expected) -> None:
    columns = ["site", "start_time", "pageviews", "steps"]
    counts = Counter(
        (*row, " ".join(f"{int(step['time'].timestamp())}{step['path']}" for step in steps))  # type: ignore[attr-defined]
        for *row, steps in read("silver.session_steps", columns)
    )
    rows = {(*row, count) for row, count in counts.items()}
    _equal("silver.session_steps", columns, rows, expected.steps)


def _session_goals(read: Read, expected: Expected) -> None:
    """Compares the sessions; what they reach is compared by gold.goals."""
    columns = ["site", "start_time", "end_time", "pageviews", "channel"]
    counts = Counter(row for row in read("silver.session_goals", columns) if row[3])
    rows = {(*row, count) for row, count in counts.items()}
    _equal("silver.session_goals", columns, rows, expected.session_goals)


def _audience(read: Read, expected: Expected) -> None:
    """Compares with silver.requests, whose rows are compared before: device, browser and system are not recomputed."""
    key = ("site", "bot_kind", "country", "device", "browser", "os")
    actual: dict[Row, list[int]] = {}
    people: dict[Row, set[object]] = {}
    columns = ["event_time", *key, "bytes", "pageview", "bot", "visitor_id"]
    for time, site, kind, *place, size, pageview, bot, visitor in read("silver.requests", columns):
        row = (site, time // 3600 * 3600, kind or "", *place)  # type: ignore[operator]
        sums = actual.setdefault(row, [0, 0, 0])
        people.setdefault(row, set())
        for at, value in enumerate((1, pageview, size)):
            sums[at] += value  # type: ignore[operator]
        if not bot:
            people[row].add(visitor)
    rows = {(*row, *sums, len(people[row])) for row, sums in actual.items()}
    measures = ("requests", "pageviews", "bytes", "visitors")
    _same("gold.audience", ["site", "window_start", *key[1:], *measures], lambda e: rows)(read, expected)


_COUNTS = ["visitors", "pageviews", "requests", "bot_requests"]
REQUESTS = [
    "site", "event_time", "country", "method", "path", "status", "bytes", "duration_us", "latency_bucket", "network",
    "bot", "bot_name", "bot_kind", "bot_verified", "ai_purpose", "disallowed", "channel", "source", "utm_source",
    "utm_medium", "utm_campaign", "utm_term", "utm_content", "click_id", "search_term", "asset", "pageview",
]  # fmt: skip

Comparison = Callable[[Read, Expected], None]
RECOUNTED: dict[str, Comparison] = {
    "bronze.access_log": _lines("bronze.access_log", lambda e: e.accepted + e.rejected),
    "silver.requests": _requests,
    "silver.rejected": _lines("silver.rejected", lambda e: e.rejected),
    "silver.sessions": _counted(
        "silver.sessions",
        ["site", "country", "start_time", "end_time", "duration_seconds", "pageviews", "entry_page", "exit_page",
         "bounced", "closed", "channel", "source", "medium", "campaign"],
        lambda e: e.sessions,
    ),
    "silver.session_steps": _steps,
    "silver.visitor_days": _counted(
        "silver.visitor_days",
        ["site", "day", "requests", "pageviews", "assets", "not_found", "robots_txt", "hosting",
         "minutes"],
        lambda e: e.visitor_days,
    ),
    "gold.sources": _same(
        "gold.sources",
        ["site", "window_start", "channel", "source", "medium", "campaign", "sessions", "bounces", "pageviews",
         "visitors"],
        lambda e: e.sources,
    ),
    "silver.session_goals": _session_goals,
    "gold.goals": _same(
        "gold.goals",
        ["site", "window_start", "goal", "channel", "conversions", "visitors"],
        lambda e: e.goals,
    ),
    "gold.completions": _same(
        "gold.completions", ["site", "window_start", "goal", "completions"], lambda e: e.completions
    ),
    "gold.visitors_by_country": _same(
        "gold.visitors_by_country", ["site", "window_start", "country", *_COUNTS], lambda e: e.windows
    ),
    "gold.traffic": _same(
        "gold.traffic",
        ["site", "window_start", *_COUNTS, "bytes", *(f"status_{c}xx" for c in (2, 3, 4, 5))],
        lambda e: e.traffic,
    ),
    "gold.pages": _same(
        "gold.pages", ["site", "window_start", "path", "pageviews", "visitors"], lambda e: e.pages
    ),
    "gold.formats": _same(
        "gold.formats",
        ["site", "window_start", "format", "requests", "visitors", "first_event_time", "newest_event_time"],
        lambda e: e.formats,
    ),
    "gold.responses": _same(
        "gold.responses",
        ["site", "window_start", "status", "method", "protocol", "host", "bot", "requests", "bytes"],
        lambda e: e.responses,
    ),
    "gold.errors": _same(
        "gold.errors",
        ["site", "window_start", "path", "status", "requests", "visitors", "newest_event_time"],
        lambda e: e.errors,
    ),
    "gold.visitor_hours": _same(
        "gold.visitor_hours", ["site", "window_start", "visitors"], lambda e: e.visitor_hours
    ),
    "gold.page_latency": _same(
        "gold.page_latency", ["site", "window_start", "path", "requests", "buckets"], lambda e: e.page_latency
    ),
    "gold.latency": _same(
        "gold.latency", ["site", "window_start", "bot", "latency_bucket", "requests"], lambda e: e.latency
    ),
    "gold.searches": _same(
        "gold.searches", ["site", "day", "term", "searches", "visitors"], lambda e: e.searches
    ),
    "gold.bots": _same(
        "gold.bots",
        ["site", "window_start", "bot_name", "bot_kind", "bot_verified", "requests", "pages", "bytes", "robots_txt",
         "errors", "disallowed"],
        lambda e: e.bots,
    ),
    "gold.networks": _same(
        "gold.networks",
        ["site", "window_start", "network", "as_org", "requests", "pageviews", "visitors"],
        lambda e: e.networks,
    ),
    "gold.bot_pages": _same(
        "gold.bot_pages", ["site", "day", "bot_name", "path", "requests", "forged"], lambda e: e.bot_pages
    ),
    "gold.audience": _audience,
}  # fmt: skip
