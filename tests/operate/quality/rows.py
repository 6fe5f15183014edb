"""Good rows of every checked table, and for every rule a change that breaks it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tidemark.contract.table import Table

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def good(table: Table, number: int = 0, **more: Any) -> dict[str, Any]:
    """A row that breaks no rule, with a key of its own for each `number`."""
    return {"updated_at": datetime.now(UTC)} | _GOOD[table.name](number) | more


def rows(table: Table, *values: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(values), table.arrow_schema)


def _record(number: int) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {"topic": "access-log", "partition": 0, "offset": number, "site": "shop", "kafka_timestamp": now,
            "ingested_at": now, "rejected_at": now}  # fmt: skip


def _window(number: int, seconds: int) -> dict[str, Any]:
    start = NOON + timedelta(seconds=seconds * number)
    return {"site": "shop", "window_start": start, "window_end": start + timedelta(seconds=seconds)}


_GOOD: dict[str, Any] = {
    "bronze.access_log": lambda n: _record(n) | {"value": b"line"},
    "silver.requests": lambda n: _record(n) | {
        "event_time": NOON, "visitor_id": "a", "country": "DE", "method": "GET", "path": "/", "status": 200,
        "bytes": 12, "bot": False, "asset": False, "pageview": True,
    },
    "silver.rejected": lambda n: _record(n) | {"value": b"?", "reasons": ["malformed"]},
    "silver.sessions": lambda n: {
        "session_id": f"s{n}", "site": "shop", "start_time": NOON, "end_time": NOON,
        "pageviews": 1, "bounced": True,
    },
    "silver.session_steps": lambda n: {
        "session_id": f"s{n}", "site": "shop", "visitor_id": "v1", "start_time": NOON, "end_time": NOON, "pageviews": 1,
        "steps": [{"time": NOON, "path": "/"}],
    },
    "silver.session_goals": lambda n: {
        "session_id": f"s{n}", "site": "shop", "visitor_id": "v1", "start_time": NOON, "end_time": NOON, "pageviews": 1,
        "channel": "direct", "goals": ["0a signup"],
    },
    "gold.goals": lambda n: _window(n, 3600) | {
        "goal": "signup", "channel": "direct", "conversions": 2, "visitors": 1, "definition": "0a",
    },
    "gold.visitors_by_country": lambda n: _window(n, 300) | {
        "country": "DE", "visitors": 1, "pageviews": 1, "requests": 3, "bot_requests": 1,
    },
    "gold.traffic": lambda n: _window(n, 60) | {
        "visitors": 1, "pageviews": 1, "requests": 3, "bot_requests": 1, "bytes": 5,
        "status_2xx": 2, "status_3xx": 0, "status_4xx": 1, "status_5xx": 0,
    },
    "gold.pages": lambda n: _window(n, 3600) | {"path": "/", "pageviews": 2, "visitors": 1},
    "gold.sources": lambda n: _window(n, 3600) | {
        "channel": "email", "source": "news", "medium": "email", "campaign": "may",
        "sessions": 2, "bounces": 1, "pageviews": 3, "visitors": 1,
    },
    "gold.formats": lambda n: _window(n, 86_400) | {
        "window_start": NOON + timedelta(days=n), "first_event_time": NOON + timedelta(days=n),
        "newest_event_time": NOON + timedelta(days=n, hours=3), "requests": 2, "visitors": 1, "format": "combined",
    },
    "gold.responses": lambda n: _window(n, 3600) | {
        "status": 200, "method": "GET", "protocol": "HTTP/1.1", "host": "", "bot": False, "requests": 2, "bytes": 9,
    },
    "gold.errors": lambda n: _window(n, 3600) | {
        "path": "/", "status": 404, "requests": 2, "visitors": 1, "newest_event_time": NOON + timedelta(hours=n),
    },
    "gold.visitor_hours": lambda n: _window(n, 3600) | {"visitors": 1},
    "gold.page_latency": lambda n: _window(n, 3600) | {"path": "/", "requests": 1, "buckets": [(9, 1)]},
    "silver.visitor_days": lambda n: {
        "site": "shop", "day": NOON.replace(hour=0), "visitor_id": f"v{n}", "requests": 3, "pageviews": 1,
        "assets": 1, "not_found": 1, "robots_txt": 0, "hosting": 0, "minutes": [(60, 1)],
    },
    "gold.bots": lambda n: _window(n, 3600) | {
        "bot_name": "GPTBot", "bot_kind": "ai-crawler", "bot_verified": "verified", "requests": 3, "pages": 1,
        "bytes": 5, "robots_txt": 1, "errors": 1, "disallowed": 0,
    },
    "gold.bot_pages": lambda n: {
        "site": "shop", "day": NOON + timedelta(days=n), "bot_name": "GPTBot", "path": "/", "requests": 1,
        "forged": 0,
    },
    "gold.latency": lambda n: _window(n, 300) | {"bot": False, "latency_bucket": 9, "requests": 1},
    "gold.completions": lambda n: {
        **_window(n, 3600), "goal": "signup", "definition": "d", "completions": 3,
    },
    "gold.searches": lambda n: {
        "site": "shop", "day": NOON + timedelta(days=n), "term": "shoes", "searches": 2, "visitors": 1,
    },
    "gold.audience": lambda n: _window(n, 3600) | {
        "bot_kind": "", "country": "DE", "device": "mobile", "browser": "Firefox", "os": "Android", "requests": 2,
        "pageviews": 1, "bytes": 5, "visitors": 1,
    },
    "gold.networks": lambda n: _window(n, 3600) | {
        "network": "hosting", "as_org": "", "requests": 2, "pageviews": 1, "visitors": 1,
    },
    "quality.sites": lambda n: {"site": f"shop{n}"},
    "quality.accounts": lambda n: {
        "flow": "requests", "batch_id": n, "received": 3, "accepted": 2, "rejected": 1, "duplicate": 0,
        "late": 0, "started_at": datetime.now(UTC), "committed_at": datetime.now(UTC),
    },
    "quality.tables": lambda n: {"table": f"gold.table{n}", "package": "", "complete": True},
    "quality.alerts": lambda n: _window(n, 300) | {"rule": "errors", "state": "firing", "value": 0.2, "bound": 0.1},
    "quality.notes": lambda n: {"note": f"n{n}", "time": NOON, "site": "", "text": "Sale", "cause": "hand"},
    "quality.alert_rules": lambda n: {"rule": "errors", "site": f"shop{n}", "state": "ok"},
    "quality.deliveries": lambda n: {
        "report": "weekly", "period": f"2026-06-{n + 1:02d}", "period_start": NOON, "state": "sent",
    },
}  # fmt: skip

BAD: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("silver.requests", "status_in_range"): [{"status": 99}, {"status": 1000}],
    ("silver.requests", "size_in_range"): [{"bytes": -1}, {"bytes": None}],
    ("silver.requests", "invalid_time"): [{"event_time": None}],
    ("silver.requests", "visitor_known"): [{"visitor_id": None}],
    ("silver.requests", "country_code"): [{"country": "de"}, {"country": "DEU"}, {"country": None},
                                          {"country": "DE\n"}],
    ("silver.requests", "pageview_is_page"): [
        {"bot": True}, {"asset": True}, {"status": 404}, {"method": "POST"},
    ],
    ("silver.requests", "country_located"): [{"country": "ZZ"}],
    ("silver.requests", "key_unique"): [{"offset": 0}, {"offset": None}],
    ("silver.rejected", "has_reasons"): [{"reasons": []}, {"reasons": None}],
    ("silver.rejected", "key_unique"): [{"offset": 0}],
    ("silver.sessions", "ends_after_start"): [{"end_time": NOON - timedelta(seconds=1)}],
    ("silver.sessions", "has_pageviews"): [{"pageviews": 0, "bounced": False}],
    ("silver.sessions", "bounce_is_single"): [{"pageviews": 2}, {"bounced": False}],
    ("silver.sessions", "key_unique"): [{"session_id": "s0"}],
    ("silver.session_steps", "ends_after_start"): [{"end_time": NOON - timedelta(seconds=1)}],
    ("silver.session_steps", "has_pageviews"): [{"pageviews": 0}],
    ("silver.session_steps", "key_unique"): [{"session_id": "s0"}],
    ("silver.session_goals", "session_or_match"): [{"pageviews": 0, "end_time": NOON + timedelta(seconds=1)}],
    ("silver.session_goals", "key_unique"): [{"session_id": "s0"}],
    ("gold.goals", "visitors_convert"): [{"visitors": 0}, {"visitors": 3}],
    ("gold.goals", "key_unique"): [_window(0, 3600)],
    ("gold.visitors_by_country", "aligned_window"): [
        {"window_start": NOON + timedelta(seconds=601)}, {"window_end": NOON},
    ],
    ("gold.visitors_by_country", "people_and_bots"): [{"pageviews": 3}, {"visitors": 3}],
    ("gold.visitors_by_country", "something_counted"): [{"pageviews": -1}, {"requests": None}],
    ("gold.visitors_by_country", "country_code"): [{"country": "??"}],
    ("gold.visitors_by_country", "key_unique"): [_window(0, 300)],
    ("gold.traffic", "aligned_window"): [{"window_start": NOON + timedelta(seconds=121)}],
    ("gold.traffic", "people_and_bots"): [{"pageviews": 3}],
    ("gold.traffic", "status_classes"): [{"status_5xx": 1}],
    ("gold.traffic", "key_unique"): [_window(0, 60)],
    ("gold.pages", "viewed"): [{"visitors": 0}, {"visitors": 3}],
    ("gold.pages", "key_unique"): [_window(0, 3600)],
    ("gold.sources", "parts_of_sessions"): [
        {"visitors": 0}, {"visitors": 3}, {"bounces": 3}, {"pageviews": 1},
    ],
    ("gold.sources", "key_unique"): [_window(0, 3600)],
    ("gold.formats", "lines_within_the_day"): [
        {"requests": 0}, {"newest_event_time": NOON - timedelta(days=9)},
        {"first_event_time": NOON - timedelta(days=9)},
    ],
    ("gold.formats", "key_unique"): [_window(0, 86_400) | {"format": "combined"}],
    ("gold.responses", "responded"): [{"requests": 0}, {"bytes": -1}],
    ("gold.responses", "key_unique"): [_window(0, 3600), _window(0, 3600) | {"host": None}],
    ("gold.errors", "failed"): [{"status": 399}, {"requests": 0, "visitors": 0}, {"visitors": 3}],
    ("gold.errors", "newest_within_the_hour"): [
        {"newest_event_time": NOON - timedelta(seconds=1)}, {"newest_event_time": NOON + timedelta(hours=9)},
    ],
    ("gold.errors", "key_unique"): [_window(0, 3600) | {"newest_event_time": NOON}],
    ("gold.visitor_hours", "aligned_window"): [{"window_end": NOON}],
    ("gold.visitor_hours", "visited"): [{"visitors": 0}],
    ("gold.visitor_hours", "key_unique"): [_window(0, 3600)],
    ("gold.page_latency", "timed"): [{"requests": 0}],
    ("gold.page_latency", "key_unique"): [_window(0, 3600)],
    ("silver.visitor_days", "parts_of_requests"): [
        {"requests": 0}, {"pageviews": 3}, {"not_found": 4}, {"robots_txt": 4}, {"hosting": 4},
    ],
    ("silver.visitor_days", "whole_day"): [{"day": NOON}],
    ("silver.visitor_days", "key_unique"): [{"visitor_id": "v0"}],
    ("gold.bots", "parts_of_requests"): [{"requests": 0}, {"pages": 3}, {"robots_txt": 4}, {"disallowed": 4}],
    ("gold.networks", "parts_of_requests"): [{"requests": 0}, {"pageviews": 3}, {"visitors": 3}],
    ("gold.networks", "key_unique"): [_window(0, 3600)],
    ("gold.bots", "key_unique"): [_window(0, 3600)],
    ("gold.bot_pages", "requested"): [{"requests": 0}, {"forged": 2}],
    ("gold.bot_pages", "key_unique"): [{"day": NOON}],
    ("gold.latency", "aligned_window"): [{"window_end": NOON}],
    ("gold.latency", "bucketed"): [{"latency_bucket": -1}, {"requests": 0}],
    ("gold.latency", "key_unique"): [_window(0, 300)],
    ("gold.completions", "completed"): [{"completions": 0}],
    ("gold.completions", "key_unique"): [_window(0, 3600)],
    ("gold.searches", "searched"): [{"visitors": 0}, {"visitors": 3}],
    ("gold.searches", "key_unique"): [{"day": NOON}],
    ("gold.audience", "parts_of_requests"): [{"requests": 0}, {"pageviews": 3}, {"visitors": 3}],
    ("gold.audience", "key_unique"): [_window(0, 3600)],
    ("quality.sites", "key_unique"): [{"site": "shop0"}],
    ("quality.accounts", "balanced"): [{"received": 4}, {"duplicate": 1}],
    ("quality.accounts", "key_unique"): [{"batch_id": 0}],
    ("quality.tables", "key_unique"): [{"table": "gold.table0"}],
    ("quality.alerts", "key_unique"): [_window(0, 300)],
    ("quality.alert_rules", "key_unique"): [{"site": "shop0"}],
    ("quality.notes", "key_unique"): [{"note": "n0"}],
    ("quality.deliveries", "key_unique"): [{"period": "2026-06-01"}],
}  # fmt: skip
