"""Declared bots: who they are, what they read, and what AI crawlers take and AI assistants give."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd

from tidemark.figures.bins import bins_of
from tidemark.figures.counted import Counted
from tidemark.figures.measures import (
    AUDIENCE,
    LINES,
    SESSIONS,
    SOURCES,
    TRAFFIC,
    Gold,
    has,
    measured,
)
from tidemark.figures.query import Where, count, cut
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Filter, Selection

BOTS = Gold("gold/bots", 3600, frozenset({"bot_kind"}))
BOT_PAGES = Gold("gold/bot_pages", 86_400, time="day")
BOT = Where("bot", "=", True)
AI_CRAWLER, AI_ASSISTANTS = "ai-crawler", "ai assistants"
CRAWLERS = Filter("bot_kind", "is", (AI_CRAWLER,))
ROBOTS = "/robots.txt"
NAMES = ("requests", "pages", "bytes", "robots_txt", "errors")
_LINES = replace(
    LINES,
    columns={"path": cut("path", 200)},
    measures={
        **LINES.measures,
        "pages": count(
            Where("method", "=", "GET"),
            Where("asset", "=", False),
            Where("status", "<", 400),
            Where("path", "!=", ROBOTS),
        ),
        "robots_txt": count(Where("path", "=", ROBOTS)),
        "errors": count(Where("status", ">=", 400)),
    },
)
COUNTED = Counted("requests", ("bot_name", "bot_kind"), _LINES, (BOTS,), silver_where=(BOT,))


def bots(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """Columns `bot_name`, `bot_kind`, `requests`, `pages`, `bytes`, `robots_txt` (requests of /robots.txt), `errors`,
    and `requests_share`, `bytes_share` (0 to 1) of the selection's; most requests first."""
    order = ["-requests", "bot_name", "bot_kind"]
    found = measured(
        rows, selection, _LINES, (BOTS,), NAMES,
        by=["bot_name", "bot_kind"], silver_where=(BOT,), order_by=order, limit=limit,
    )  # fmt: skip
    every = measured(rows, selection, LINES, (TRAFFIC, AUDIENCE), ["requests", "bytes"]).iloc[0]
    shares = {f"{n}_share": found[n] / every[n] if every[n] else 0.0 for n in ("requests", "bytes")}
    return found.assign(**shares)


def over_time(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `bot_kind`, `requests`."""
    return measured(
        rows, selection, _LINES, (BOTS,), ["requests"],
        by=["bot_kind"], bin_seconds=bin_seconds, silver_where=(BOT,), order_by=["bin", "bot_kind"],
    )  # fmt: skip


def read_by(
    rows: Rows, selection: Selection, name: str | None = None, limit: int | None = None
) -> pd.DataFrame:
    """What bots, or the one of this name, asked for: columns `path` (its first 200 characters) and `requests`."""
    return measured(
        rows, selection, _LINES, (BOT_PAGES,), ["requests"],
        by=["path"], where=_named(name), silver_where=(BOT,), order_by=["-requests", "path"], limit=limit,
    )  # fmt: skip


def counted_pages(name: str | None = None) -> Counted:
    """The requests of each row of `read_by`, to compare them with an earlier period."""
    return Counted("requests", ("path",), _LINES, (BOT_PAGES,), where=_named(name), silver_where=(BOT,))


def _named(name: str | None) -> tuple[Where, ...]:
    return () if name is None else (Where("bot_name", "=", name),)


def ai(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `crawls`, requests of AI crawlers, and `visits`, sessions that AI assistants sent."""
    crawlers = selection.having(CRAWLERS)
    if selection.recount or _recorded(rows, crawlers, bin_seconds):
        crawls = measured(rows, crawlers, _LINES, (BOTS,), ["requests"], bin_seconds=bin_seconds)
    else:
        crawls = _by_purpose(rows, selection, bin_seconds).groupby("bin", as_index=False)[["requests"]].sum()
    visits = measured(
        rows, selection.having(Filter("channel", "is", (AI_ASSISTANTS,))), SESSIONS, (SOURCES,), ["sessions"],
        bin_seconds=bin_seconds,
    )  # fmt: skip
    renamed = crawls.rename(columns={"requests": "crawls"}), visits.rename(columns={"sessions": "visits"})
    found = renamed[0].merge(renamed[1], on="bin", how="outer").sort_values("bin", ignore_index=True)
    return found.fillna({"crawls": 0, "visits": 0}).astype({"crawls": "int64", "visits": "int64"})


def ai_purposes(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `ai_purpose` (training, search, assistant) and `requests`, of AI crawlers; most requests first. Reads
    silver as `ai` does, in bins of the same seconds, if no gold table has its figures."""
    crawlers = selection.having(CRAWLERS)
    purposes = _purposes(rows) if _recorded(rows, crawlers, bin_seconds) else {}
    if purposes:
        found = measured(rows, crawlers, _LINES, (BOTS,), ["requests"], by=["bot_name"])
        found["ai_purpose"] = found["bot_name"].str.lower().map(purposes).fillna("")
    else:
        found = _by_purpose(rows, selection, bin_seconds)
    found = found.groupby("ai_purpose", as_index=False)[["requests"]].sum()
    return found.sort_values(["requests", "ai_purpose"], ascending=[False, True], ignore_index=True)


def _purposes(rows: Rows) -> dict[str, str]:
    """The purposes of AI crawlers by their names in lower case; none in a home from before gold.bots told them."""
    return dict(json.loads(rows.reader.contract(BOTS.table).properties.get("ai_purposes") or "{}"))


def _recorded(rows: Rows, crawlers: Selection, bin_seconds: int) -> bool:
    return has(rows, BOTS, crawlers, bins_of(rows, crawlers, bin_seconds))


def _by_purpose(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    crawlers = selection.having(CRAWLERS)
    return measured(rows, crawlers, _LINES, (), ["requests"], by=["ai_purpose"], bin_seconds=bin_seconds)
