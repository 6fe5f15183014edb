"""A small home: rows of silver.requests, and every table that the pipeline's own functions make of them."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tidemark.contract import quality_tables, registry
from tidemark.contract.table import Table
from tidemark.figures.quantiles import buckets
from tidemark.settings import Settings

START = datetime(2026, 3, 9, tzinfo=UTC)
DAYS = 3
BOTS = (
    ("GPTBot", "ai-crawler", "training"),
    ("Googlebot", "search-engine", None),
    ("curl", "http-library", None),
)
NETWORKS = (
    ("hosting", "Example Hosting", None),
    ("hosting", None, "Oslo"),
    ("relay", None, None),
    (None, "Example Telecom", "Bergen"),
    (None, None, None),
)
PATHS = ("/", "/a", "/a/b", "/it's", "/100%_\\", "/ünï", "/app.css", "/missing", "/broken", "/robots.txt")
ASSET = "/app.css"


def requests(seed: int = 1, visitors: int = 60, bots: int = 8) -> list[dict[str, Any]]:
    """Rows of silver.requests of two sites over DAYS days, some of them at the same time."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(visitors + bots):
        who = _visitor(chance, number, chance.choice(BOTS) if number >= visitors else None)
        at = START + timedelta(seconds=chance.randrange(DAYS * 86_400))
        for _ in range(chance.choice([1, 1, 3, 8, 25])):
            rows.append(_request(chance, who, at))
            at += timedelta(seconds=chance.choice([0, 1, 7, 60, 400, 1799, 1800, 7200]))
    for offset, row in enumerate(rows):
        row |= {"topic": "access-log", "partition": 0, "offset": offset}
    return [row for row in rows if row["event_time"] < START + timedelta(days=DAYS)]


def _visitor(chance: random.Random, number: int, bot: tuple[str, str, str | None] | None) -> dict[str, Any]:
    name, kind, purpose = bot or (None, None, None)
    own = random.Random(number)
    verified = ("forged" if number % 4 == 1 else "verified") if name in ("GPTBot", "Googlebot") else None
    network, organisation, city = own.choice(NETWORKS)
    site = chance.choice(["a.example", "b.example"])
    return {
        "site": site,
        "visitor_id": hashlib.sha256(f"{site} {number}".encode()).hexdigest()[:32],
        "client_ip": f"192.0.2.{number % 250}",
        "country": chance.choice(["DE", "DE", "US", "ZZ"]),
        "user_agent": f"agent {number}",
        "browser": chance.choice(["Firefox", "Chrome", None]),
        "os": chance.choice(["Linux", "Windows", None]),
        "device": "bot" if bot else chance.choice(["desktop", "mobile"]),
        "bot": bot is not None,
        "bot_name": name,
        "bot_kind": "forged" if verified == "forged" else kind,
        "bot_verified": verified,
        "ai_purpose": purpose,
        "network": network,
        "as_org": organisation,
        "city": city,
        "host": chance.choice([site, f"www.{site}", None]),
    }


def _request(chance: random.Random, who: dict[str, Any], at: datetime) -> dict[str, Any]:
    path = chance.choice(PATHS)
    status = {"/missing": 404, "/broken": chance.choice([500, 503])}.get(path, chance.choice([200, 200, 304]))
    method = chance.choice(["GET", "GET", "GET", "POST", None])
    channel, source, referrer = chance.choice(
        [("direct", None, None), ("internal", who["site"], f"https://{who['site']}/a"),
         ("organic search", "google", "https://www.google.com/"), ("email", "news", None),
         ("ai assistants", "chatgpt", "https://chatgpt.com/")]
    )  # fmt: skip
    duration = chance.choice([None, 0, 1, round(chance.lognormvariate(10, 2))])
    asset = path == ASSET
    return who | {
        "event_time": at,
        "ingested_at": at + timedelta(seconds=2),
        "kafka_timestamp": at + timedelta(seconds=1),
        "method": method,
        "path": path if method else None,
        "protocol": "HTTP/1.1",
        "status": status,
        "bytes": chance.randrange(10_000),
        "duration_us": duration,
        "channel": channel,
        "source": source,
        "referrer": referrer,
        "utm_medium": "Email" if channel == "email" else None,
        "utm_campaign": "Spring" if channel == "email" and at.hour % 2 else None,
        "disallowed": path == "/a" if who["bot"] else None,
        "asset": asset,
        "pageview": method == "GET" and not who["bot"] and not asset and status < 400,
        "format": "combined",
        "rules_version": "v1",
    }


def build(
    home: Path,
    rows: list[dict[str, Any]],
    newest_time: datetime = START + timedelta(days=DAYS),
    settings: Settings | None = None,
) -> pd.DataFrame:
    """Writes the tables, with sessions closed by `newest_time`; returns the rows of silver.requests as a frame."""
    settings = settings or Settings.of()
    tables = {table.name: table for table in registry.tables()}
    silver = tables["silver.requests"]
    lines = pa.Table.from_pylist(rows, silver.arrow_schema)
    lines = lines.set_column(
        lines.column_names.index("latency_bucket"),
        silver.arrow_schema.field("latency_bucket"),
        buckets(lines["duration_us"].combine_chunks(), 0.01),
    )
    newest = dict.fromkeys(lines["site"].to_pylist(), newest_time)
    _write(home, silver, lines)
    rows_of = {silver.name: lines}
    for table in sorted(tables.values(), key=lambda table: table.follows):
        if table.aggregation is None or table.package:
            continue
        aggregation = table.aggregation(settings.meaning).at(newest)
        source = rows_of[table.reads].select(list(aggregation.needs))
        rows_of[table.name] = aggregation.combine(
            table.arrow_schema.empty_table(), aggregation.partial(source)
        ).rows
        _write(home, table, rows_of[table.name], table.reader_properties(settings))
    return lines.to_pandas()


def write(home: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Writes a table with these rows; columns that they lack are NULL."""
    table = next(table for table in (*registry.tables(), *quality_tables.TABLES) if table.name == name)
    _write(home, table, pa.Table.from_pylist(rows, table.arrow_schema))


def _write(home: Path, table: Table, rows: pa.Table, properties: dict[str, str] | None = None) -> None:
    path = home.joinpath("tables", *table.name.split("."))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), rows.select(table.column_names), mode="overwrite")
    if properties:
        DeltaTable(str(path)).alter.set_table_properties(properties, raise_if_not_exists=False)
