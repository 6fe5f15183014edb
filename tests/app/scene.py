"""A site with traffic of a realistic shape, for tests in the browser and for looking at."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.app import lakehouse, tables
from tests.app.tables import Request

COUNTRIES = ["US"] * 5 + ["DE", "IN"] * 3 + ["GB", "FR", "BR", "JP", "CN"] * 2
for codes in (
    "CA AU NL ES IT PL SE MX KR ZA NG EG TR ID AR CO CL VN PH UA RO PT CH AT BE NO FI DK",
    "CZ GR IE NZ SG ZZ",
):
    COUNTRIES += codes.split()
PATHS = [
    "/",
    "/pricing",
    "/docs",
    "/docs/start",
    "/blog",
    "/blog/streaming",
    "/about",
    "/signup",
    "/docs/api",
]
PATHS += [
    f"/blog/{year}/{slug}"
    for year in (2024, 2025, 2026)
    for slug in ("exactly-once", "sketches", "late-data")
]
DECLARED = """\
[goals.signup]
path = "/signup"
[alerts.busy]
metric = "requests"
window = "1h"
above = 10
"""
ATTACKS = ("<img src=x onerror=alert(1)>", "**bold** [link](javascript:alert(1))", "=HYPERLINK(1)")


def build(
    home: Path, now: datetime, *, days: float = 2.0, people: int = 4000, seed: int = 7
) -> list[Request]:
    """Writes every table for the days before `now`; returns the requests behind the gold tables."""
    pick = random.Random(seed)
    requests: list[Request] = []
    for number in range(people):
        back = days * 86_400 * (pick.random() ** (1.0 if number % 4 else 3.0))
        start = (now - timedelta(seconds=back)).replace(microsecond=0)
        if pick.random() > 0.55 + 0.45 * math.sin((start.hour - 8) / 24 * 2 * math.pi):
            continue
        site = "shop.example.com" if pick.random() < 0.3 else "www.example.com"
        requests += _visit(pick, number, site, start, now)
    for i, path in enumerate(ATTACKS):
        at = now - timedelta(minutes=3 + i)
        requests += [Request(at, f"attacker{j}", "ZZ", path, "www.example.com") for j in range(40)]
    rows = [_row(i, request, now) for i, request in enumerate(requests)]
    lakehouse.build(home, rows, now)
    lakehouse.write(home, "bronze.access_log", [line_of(row) for row in rows])
    _quality(home, now, days, requests, pick)
    return requests


def _visit(pick: random.Random, number: int, site: str, start: datetime, now: datetime) -> list[Request]:
    visitor, country = f"visitor{number}", pick.choice(COUNTRIES)
    if pick.random() < 0.12:
        times = [start + timedelta(seconds=2 * i) for i in range(pick.randint(3, 30))]
        return [Request(t, visitor, country, pick.choice(PATHS), site, bot=True) for t in times if t <= now]
    length = 1 if pick.random() < 0.42 else 2 + int(pick.expovariate(0.35))
    times, at = [], start
    for _ in range(length):
        times.append(at)
        at += timedelta(seconds=round(pick.expovariate(1 / 45)) + 1)
    times = [t for t in times if t <= now]
    pages = [PATHS[min(int(pick.expovariate(0.3)), len(PATHS) - 1)] for _ in times]
    out = []
    for time, page in zip(times, pages, strict=True):
        out.append(Request(time, visitor, country, page, site, bytes=pick.randint(2_000, 90_000)))
        css = Request(time, visitor, country, "/app.css", site, asset=True, bytes=9_000)
        out += [css] * pick.randint(0, 3)
        if pick.random() < 0.06:
            status = pick.choice([301, 404, 404, 404, 500])
            out.append(Request(time, visitor, country, "/old", site, status=status))
    return out


AGENTS = (
    ("Chrome", "Windows", "desktop"), ("Chrome", "Android", "mobile"), ("Mobile Safari", "iOS", "mobile"),
    ("Firefox", "Linux", "desktop"), ("Edge", "Windows", "desktop"), ("Samsung Internet", "Android", "tablet"),
)  # fmt: skip
BOTS = (
    ("GPTBot", "ai-crawler", "training"), ("Googlebot", "search-engine", None), ("AhrefsBot", "seo", None),
    ("curl", "http-library", None),
)  # fmt: skip
CAME = (
    ("direct", None, None), ("direct", None, None), ("organic search", "google", "https://www.google.com/"),
    ("organic social", "mastodon", "https://mastodon.social/"), ("ai assistants", "chatgpt", "https://chatgpt.com/"),
    ("referral", "blog.partner.example", "https://blog.partner.example/list"), ("email", "newsletter", None),
)  # fmt: skip


def _row(offset: int, request: Request, now: datetime) -> dict[str, Any]:
    """The row of silver.requests; what a visitor has once depends on the visitor only."""
    own = random.Random(request.visitor)
    browser, system, device = own.choice(AGENTS)
    name, kind, purpose = own.choice(BOTS) if request.bot else (None, None, None)
    channel, source, referrer = own.choice(CAME)
    if request.visitor.startswith("attacker"):
        browser = ATTACKS[0]
    if request.status == 404:
        channel, source, referrer = "internal", request.site, f"https://{request.site}/blog"
    return {
        "topic": "access-log", "partition": 0, "offset": offset, "site": request.site, "event_time": request.time,
        "ingested_at": now, "kafka_timestamp": request.time + timedelta(seconds=1), "country": request.country,
        "visitor_id": request.visitor, "client_ip": "192.0.2.7", "method": "GET", "path": request.path,
        "protocol": "HTTP/1.1", "status": request.status, "bytes": request.bytes,
        "duration_us": round(own.lognormvariate(10, 1)) + offset % 997, "referrer": referrer, "channel": channel,
        "source": source, "utm_medium": "email" if channel == "email" else None,
        "utm_campaign": "launch" if channel == "email" else None, "user_agent": browser, "browser": browser,
        "os": system, "device": "bot" if request.bot else device, "bot": request.bot, "bot_name": name,
        "network": own.choice((None, None, "relay", "hosting")), "bot_verified": "verified" if purpose else None,
        "bot_kind": kind, "ai_purpose": purpose, "asset": request.asset, "pageview": request.pageview,
        "host": request.site, "format": "combined", "rules_version": "v1",
    }  # fmt: skip


def line_of(row: dict[str, Any]) -> dict[str, Any]:
    """The line in bronze that such a row is of."""
    value = f'{row["client_ip"]} - - [] "GET {row["path"]} HTTP/1.1" {row["status"]} {row["bytes"]}'
    same = {
        name: row[name] for name in ("topic", "partition", "offset", "site", "kafka_timestamp", "ingested_at")
    }
    return same | {"value": value.encode()}


def _quality(home: Path, now: datetime, days: float, requests: list[Request], pick: random.Random) -> None:
    bad = [
        (
            b'203.0.113.9 - - [31/Feb/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 12 "-" "curl"',
            ["impossible_date"],
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\xff\xfe\x00garbage", ["not_utf8", "malformed_line"]),
        (b"", ["empty_line"]),
        (
            b'999.1.1.1 - - [20/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 -5 "-" "x"',
            ["bad_address", "bad_size"],
        ),
        (b'<script>alert(1)</script> **bold** "GET /', ["malformed_line"]),
    ]
    rows = []
    for i in range(400):
        at = now - timedelta(seconds=days * 86_400 * pick.random() ** 2)
        value, reasons = pick.choice(bad)
        rows.append(
            tables.rejected(i, at, value, *reasons, site=pick.choice(["www.example.com", "shop.example.com"]))
        )
    tables.write(home, "silver/rejected", rows)
    batches = 600
    accounts, progress = [], []
    for i in range(batches):
        at = now - timedelta(seconds=days * 86_400 * (1 - (i + 1) / batches))
        load = 1000 * (1.2 + math.sin(i / 30)) + pick.random() * 200
        accounts.append(
            tables.account(i, at, round(load), pick.randint(0, 9), pick.randint(0, 3), pick.randint(0, 40))
        )
        for flow, factor in (("requests", 1.0), ("activity", 0.97)):
            progress.append(
                tables.progress(
                    flow, i, at, rows=round(load * factor), duration_ms=round(350 + 200 * pick.random()),
                    rows_per_second=load * factor * 2.2, freshness_seconds=0.5 + pick.random() * 0.6,
                    lag=round(max(0.0, pick.gauss(40, 60))),
                )
            )  # fmt: skip
    tables.write(home, "quality/accounts", accounts)
    tables.write(home, "quality/progress", progress)
    results = []
    for i in range(48):
        at = now - timedelta(seconds=60 + days * 86_400 * (1 - (i + 1) / 48))
        for table in ("silver.requests", "gold.visitors_by_country", "quality.accounts"):
            for rule, column, severity in (
                ("expect_column_values_to_not_be_null", "site", "critical"),
                ("expect_column_values_to_be_between", "requests", "critical"),
                ("expect_column_values_to_be_in_set", "country", "warning"),
                ("freshness_below", "updated_at", "warning"),
            ):
                ok = not (rule == "freshness_below" and i % 9 == 2)
                if i == 47 and rule == "expect_column_values_to_be_in_set" and table.startswith("gold"):
                    ok = False
                results.append(tables.result(at, table, rule, ok, column=column, severity=severity))
    tables.write(home, "quality/results", results)
    sites = tables._sites(requests)
    for row in sites:
        n = row["accepted"]
        row["lateness"] = [int(n * s) for s in (0.8, 0.09, 0.05, 0.03, 0.02, 0.006, 0.003, 0.001)]
    tables.write(home, "quality/sites", sites)
    tables.write(home, "gold/formats", _formats(requests))
    _others(home, now, days, pick)
    _with_alerts(home, now)


def _with_alerts(home: Path, now: datetime) -> None:
    """A rule and what it fired, notes, and reported days that late lines changed."""
    hour, site = timedelta(hours=1), "www.example.com"
    rule = {
        "rule": "busy",
        "site": site,
        "metric": "requests",
        "about": "requests above 10 in 1h",
        "bound": 10.0,
    }
    (home / "tidemark.toml").write_text(DECLARED)
    start = tables.floor(now, 3600) - 9 * hour
    fired = {**rule, "window_start": start, "window_end": start + hour, "state": "ended", "value": 31.0, "due": False,
             "ended_at": start + 4 * hour, "fired_at": start + hour, "late": False, "delivered": "ended",
             "delivered_at": start + 4 * hour, "delivered_to": "target 1 (mailto)"}  # fmt: skip
    gone = {"window_start": start - 5 * hour, "window_end": start - 4 * hour, "state": "withdrawn", "ended_at": None,
            "withdrawn_at": start, "late": True}  # fmt: skip
    tables.write(home, "quality/alerts", [fired, fired | gone])
    tables.write(
        home, "quality/alert_rules", [rule | {"state": "ok", "value": 7.0, "judged_until": start + 9 * hour}]
    )
    notes = [(start, ATTACKS[0], site, "hand"), (start + hour, "Rebuilt: all", "", "rebuild")]
    tables.write(
        home, "quality/notes",
        [{"note": text, "time": at, "site": of, "text": text, "cause": cause} for at, text, of, cause in notes],
    )  # fmt: skip
    day = tables.floor(now, 86_400) - timedelta(days=1)
    values = {"requests": 900.0, "pageviews": 800.0, "visitors": 300.0, "sessions": 320.0, "bounce_rate": 0.5}
    rows = [(25, metric, value, "day over") for metric, value in values.items()]
    rows += [(27, "requests", 950.0, "late lines"), (29, "visitors", 310.0, "rebuild")]
    tables.write(
        home, "quality/reported",
        [{"site": site, "day": day, "metric": metric, "value": value, "reported_at": day + after * hour,
          "cause": cause} for after, metric, value, cause in rows],
    )  # fmt: skip


def _formats(requests: list[Request]) -> list[dict[str, Any]]:
    """The shop writes JSON, the other site the combined format."""
    days: dict[tuple[str, datetime], list[datetime]] = {}
    for each in requests:
        days.setdefault((each.site, tables.floor(each.time, 86_400)), []).append(each.time)
    return [
        {"site": site, "window_start": day, "window_end": day + timedelta(days=1),
         "format": "nginx_json" if site == "shop.example.com" else "combined", "requests": len(times),
         "first_event_time": min(times), "newest_event_time": max(times), "updated_at": max(times)}
        for (site, day), times in days.items()
    ]  # fmt: skip


def _others(home: Path, now: datetime, days: float, pick: random.Random) -> None:
    """A table of another package, whose history is being filled."""
    hour = tables.floor(now, 3600)
    rows = []
    for back in range(int(days * 24)):
        for site in ("www.example.com", "shop.example.com"):
            for status, share in ((200, 900), (304, 120), (404, 40), (500, 3)):
                count = round(share * (1 + pick.random()))
                start = hour - timedelta(hours=back)
                rows.append({"site": site, "window_start": start, "window_end": start + timedelta(hours=1),
                             "status": status, "requests": count, "bytes": count * 4_000, "visitors": count // 3,
                             "updated_at": now})  # fmt: skip
    tables.write(home, "gold/requests_by_status", rows)
    known: list[dict[str, Any]] = [{"table": "gold.traffic", "package": "", "complete": True}]
    known.append({"table": "gold.requests_by_status", "package": "tidemark-requests-by-status", "complete": False,
                  "done": 3, "total": 10, "updated_at": now})  # fmt: skip
    tables.write(home, "quality/tables", known)
