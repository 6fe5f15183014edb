"""Declared bots: who they are, what they read, and what AI crawlers take and AI assistants give."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from tidemark.figures.bins import bins_of
from tidemark.figures.counted import Counted
from tidemark.figures.measures import AUDIENCE, LINES, SESSIONS, SOURCES, TRAFFIC, Gold, has, measured
from tidemark.figures.query import Where, count, count_true, distinct_values, prefix, query
from tidemark.figures.rows import Rows, ordered
from tidemark.figures.selection import Filter, Selection

BOTS = Gold("gold/bots", 3600, frozenset({"bot_name", "bot_kind", "bot_verified"}))
BOT_PAGES = Gold("gold/bot_pages", 86_400, frozenset({"bot_name"}), time="day")
BOT = Where("bot", "=", True)
FORGED = "forged"
AI_CRAWLER, AI_ASSISTANTS = "ai-crawler", "ai assistants"
CRAWLERS, ASSISTED = Filter("bot_kind", "is", (AI_CRAWLER,)), Filter("channel", "is", (AI_ASSISTANTS,))
ROBOTS = "/robots.txt"
NAMES = ("requests", "pages", "bytes", "robots_txt", "errors", "disallowed")
WHO = ("bot_name", "bot_kind", "bot_verified")
_LINES = replace(
    LINES,
    columns={"path": prefix("path", 200)},
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
        "disallowed": count_true("disallowed"),
        "forged": count(Where("bot_verified", "=", FORGED)),
        "addresses": distinct_values("client_ip"),
    },
)
_BOTS, _PAGES = _LINES.of(BOTS, only=(BOT,)), _LINES.of(BOT_PAGES, only=(BOT,))
_SESSIONS = SESSIONS.of(SOURCES)
COUNTED = Counted("requests", WHO, _BOTS)


def bots(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """Columns `bot_name`, `bot_kind`, `bot_verified` (verified, forged or empty), `requests`, `pages`, `bytes`,
    `robots_txt` (requests of /robots.txt), `errors`, `disallowed` (requests that robots.txt forbids), and
    `requests_share`, `bytes_share` (0 to 1) of the selection's; most requests first."""
    order = ["-requests", *WHO]
    listed = measured(rows, selection, _BOTS, NAMES, by=WHO, order_by=order, limit=limit)
    # Rows of before the column was added have none until the table is filled.
    listed["bot_verified"] = listed["bot_verified"].fillna("")
    every = measured(rows, selection, LINES.of(TRAFFIC, AUDIENCE), ["requests", "bytes"]).iloc[0]
    shares = {f"{n}_share": listed[n] / every[n] if every[n] else 0.0 for n in ("requests", "bytes")}
    return listed.assign(**shares)


def over_time(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `bot_kind`, `requests`."""
    order = ["bin", "bot_kind"]
    return measured(
        rows, selection, _BOTS, ["requests"], by=["bot_kind"], bin_seconds=bin_seconds, order_by=order
    )


def pretenders(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """Forged bots by where they come from: columns `bot_name`, `network`, `as_org`, `requests`, `addresses` (distinct
    ones); most requests first."""
    by, names = ["bot_name", "network", "as_org"], ["requests", "addresses"]
    if _knows_of_no_forged(rows, selection):
        return pd.DataFrame(columns=pd.Index([*by, *names]))
    forged = replace(_LINES, only=(Where("bot_verified", "=", FORGED),), few=True)
    return measured(rows, selection, forged, names, by=by, order_by=["-requests", *by], limit=limit)


def _knows_of_no_forged(rows: Rows, selection: Selection) -> bool:
    """Whether gold.bots has the selection, and no forged bot in it."""
    if not has(rows, BOTS, selection):
        return False
    identities = rows(query(BOTS.table, ["bot_verified"], BOTS.where(selection), group_by=["bot_verified"]))[
        "bot_verified"
    ]
    # Rows of before the column was added have none until the table is filled.
    return not (identities.isna() | (identities == FORGED)).any()


def read_by(
    rows: Rows, selection: Selection, names: Sequence[str] | None = None, limit: int | None = None
) -> pd.DataFrame:
    """The requests of bots, or of those of these names: columns `path` (its first 200 characters) and `requests`."""
    where, order = _named(names), ["-requests", "path"]
    return measured(
        rows, selection, _PAGES, ["requests"], by=["path"], where=where, order_by=order, limit=limit
    )


def read_by_operator(rows: Rows, selection: Selection, names: Sequence[str], limit: int) -> pd.DataFrame:
    """The same of an operator's bots of these names, without requests of forged ones."""
    pages = measured(rows, selection, _PAGES, ["requests", "forged"], by=["path"], where=_named(names))
    # Rows of before the column was added have none until the table is filled.
    requests = pages["requests"] - pages["forged"].fillna(0).astype("int64")
    pages = pages.assign(requests=requests)[requests > 0][["path", "requests"]]
    return ordered(pages, ["-requests", "path"], limit)


def counted_pages(names: Sequence[str] | None = None) -> Counted:
    """The requests of each row of `read_by`, to compare them with an earlier period."""
    return Counted("requests", ("path",), _PAGES, _named(names))


def named(names: Sequence[str]) -> Where:
    """The condition that keeps the bots of these names."""
    return Where("bot_name", "in", tuple(names))


def _named(names: Sequence[str] | None) -> tuple[Where, ...]:
    return () if names is None else (named(names),)


def ai(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `crawls`, requests of AI crawlers, and `visits`, sessions that AI assistants sent."""
    crawlers = selection.having(CRAWLERS)
    if selection.recount or _recorded(rows, crawlers, bin_seconds):
        crawls = measured(rows, crawlers, _LINES.of(BOTS), ["requests"], bin_seconds=bin_seconds)
    else:
        crawls = _by_purpose(rows, selection, bin_seconds).groupby("bin", as_index=False)[["requests"]].sum()
    assisted = selection.having(ASSISTED)
    visits = measured(rows, assisted, _SESSIONS, ["sessions"], bin_seconds=bin_seconds)
    return _beside(crawls, visits, {"requests": "crawls", "sessions": "visits"})


def ai_operators(rows: Rows, selection: Selection) -> pd.DataFrame:
    """AI operators: columns `operator`, `bots` (names of those of their bots that crawled), `crawled`, pages that these
    fetched, `referred`, sessions that their assistants sent, and `ratio` of both (NULL without sessions); most pages
    first. Forged bots are no operator's."""
    crawls, visits = _of_operators(rows, selection)
    crawled = crawls.groupby("operator").agg(bots=("bot_name", _distinct), crawled=("pages", "sum"))
    referred = visits.groupby("operator").agg(referred=("sessions", "sum"))
    operators = crawled.join(referred, how="outer").rename_axis("operator").reset_index()
    operators["bots"] = [names if isinstance(names, list) else [] for names in operators["bots"]]
    operators = operators.fillna({"crawled": 0, "referred": 0}).astype(
        {"crawled": "int64", "referred": "int64"}
    )
    operators["ratio"] = operators["crawled"] / operators["referred"].where(operators["referred"] > 0)
    return ordered(operators, ["-crawled", "-referred", "operator"])


def ai_operator_over_time(rows: Rows, selection: Selection, bin_seconds: int, operator: str) -> pd.DataFrame:
    """Columns `bin` (UTC), `crawled`, `referred` of an operator."""
    crawls, visits = (
        each[each["operator"] == operator].groupby("bin", as_index=False)[[name]].sum()
        for each, name in zip(_of_operators(rows, selection, bin_seconds), ("pages", "sessions"), strict=True)
    )
    return _beside(crawls, visits, {"pages": "crawled", "sessions": "referred"})


def _beside(crawls: pd.DataFrame, visits: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Both counts by `bin` under their new names, 0 where there is none."""
    merged = crawls.merge(visits, on="bin", how="outer").sort_values("bin", ignore_index=True)
    return (
        merged.rename(columns=names)
        .fillna(dict.fromkeys(names.values(), 0))
        .astype(dict.fromkeys(names.values(), "int64"))
    )


def _of_operators(
    rows: Rows, selection: Selection, bin_seconds: int | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`pages` of each AI bot, and `sessions` by source of AI assistants, both with the `operator`; with `bin_seconds`
    by time."""
    declared = _property(rows, "ai_operators")
    of_bots, of_sources = declared.get("bots", {}), declared.get("sources", {})
    crawls = measured(rows, selection, _BOTS, ["pages"], by=WHO, bin_seconds=bin_seconds)
    listed = crawls["bot_name"].str.lower().map(of_bots)
    ai_bots = (listed.notna() | (crawls["bot_kind"] == AI_CRAWLER)) & (crawls["bot_kind"] != FORGED)
    crawls = crawls.assign(operator=listed.fillna(crawls["bot_name"]))[ai_bots & (crawls["pages"] > 0)]
    assisted = selection.having(ASSISTED)
    visits = measured(rows, assisted, _SESSIONS, ["sessions"], by=["source"], bin_seconds=bin_seconds)
    return crawls, visits.assign(operator=visits["source"].map(of_sources).fillna(visits["source"]))


def sources_of(rows: Rows, operator: str) -> tuple[str, ...]:
    """The sources of the sessions that an AI operator's assistants send."""
    declared = _property(rows, "ai_operators").get("sources", {})
    return tuple(source for source, of in declared.items() if of == operator) or (operator,)


def _property(rows: Rows, name: str) -> dict[str, Any]:
    """A property of gold.bots, empty in a home without it. `ai_operators`: the operators by the names of their `bots`
    in lower case, and by the `sources` of their assistants' visits; `ai_purposes`: the purposes of AI crawlers by their
    names in lower case."""
    return dict(json.loads(rows.reader.contract(BOTS.table).properties.get(name) or "{}"))


def _distinct(names: pd.Series) -> list[str]:
    return sorted(set(names))


def ai_purposes(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `ai_purpose` (training, search, assistant) and `requests`, of AI crawlers; most requests first. Reads
    silver as `ai` does, in bins of the same seconds, if no gold table has its figures."""
    crawlers = selection.having(CRAWLERS)
    purposes = _property(rows, "ai_purposes") if _recorded(rows, crawlers, bin_seconds) else {}
    if purposes:
        counts = measured(rows, crawlers, _LINES.of(BOTS), ["requests"], by=["bot_name"])
        counts["ai_purpose"] = counts["bot_name"].str.lower().map(purposes).fillna("")
    else:
        counts = _by_purpose(rows, selection, bin_seconds)
    counts = counts.groupby("ai_purpose", as_index=False)[["requests"]].sum()
    return ordered(counts, ["-requests", "ai_purpose"])


def _recorded(rows: Rows, crawlers: Selection, bin_seconds: int) -> bool:
    return has(rows, BOTS, crawlers, bins_of(rows, crawlers, bin_seconds))


def _by_purpose(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    crawlers = selection.having(CRAWLERS)
    return measured(rows, crawlers, _LINES, ["requests"], by=["ai_purpose"], bin_seconds=bin_seconds)
