"""What a selection keeps of the rows of silver.requests, by pandas; figures are compared with counts of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import pandas as pd

from tests.app.lakehouse import START
from tidemark.figures.query import Query
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, filters_of

Scene = tuple[Rows, pd.DataFrame]
Hours = tuple[float, float] | None


def select(*filters: str, hours: Hours, site: str | None = None, **more: bool) -> Selection:
    start, end = (None, None) if hours is None else (START + timedelta(hours=h) for h in hours)
    return Selection(site, start, end, filters=filters_of(filters), **more)


KEPT = {
    "country=DE": lambda r: r["country"] == "DE",
    "country!=DE": lambda r: r["country"] != "DE",
    "country=DE|US": lambda r: r["country"].isin(["DE", "US"]),
    "host=a.example": lambda r: r["host"] == "a.example",
    "host!=a.example": lambda r: r["host"] != "a.example",
    "host=": lambda r: r["host"].isna(),
    "host!=": lambda r: r["host"].notna(),
    "path=/it's": lambda r: r["path"] == "/it's",
    "path~%_\\\\": lambda r: r["path"] == "/100%_\\",
    "path^/a": lambda r: r["path"].str.startswith("/a").eq(True),
    "path~b|ü": lambda r: r["path"].str.contains("b|ü").eq(True),
    "status=404": lambda r: r["status"] == 404,
    "status!=200|304": lambda r: ~r["status"].isin([200, 304]),
    "status^5": lambda r: r["status"] // 100 == 5,
    "method!=GET": lambda r: r["method"] != "GET",
    "method!=POST": lambda r: r["method"] != "POST",
    "device=mobile": lambda r: r["device"] == "mobile",
    "browser=": lambda r: r["browser"].isna(),
    "os!=Linux|": lambda r: r["os"].notna() & (r["os"] != "Linux"),
    "channel=email": lambda r: r["channel"] == "email",
    "source~oo": lambda r: r["source"].str.contains("oo").eq(True),
    "bot_kind=": lambda r: r["bot_kind"].isna(),
    "bot_kind!=": lambda r: r["bot_kind"].notna(),
    "network=hosting": lambda r: r["network"] == "hosting",
    "as_org!=Example Hosting": lambda r: r["as_org"] != "Example Hosting",
    "city=Oslo": lambda r: r["city"] == "Oslo",
    "verified=forged": lambda r: r["bot_verified"] == "forged",
    "campaign=spring": lambda r: r["utm_campaign"].str.lower() == "spring",
    "bot_name=curl": lambda r: r["bot_name"] == "curl",
    "bot_kind=ai-crawler": lambda r: r["bot_kind"] == "ai-crawler",
}  # fmt: skip


def inside(lines: pd.DataFrame, selection: Selection, *filters: str) -> pd.DataFrame:
    """The lines that a selection keeps."""
    kept = lines
    if selection.start is not None and selection.end is not None:
        kept = kept[(kept["event_time"] >= selection.start) & (kept["event_time"] < selection.end)]
    if selection.site is not None:
        kept = kept[kept["site"] == selection.site]
    for each in filters:
        kept = kept[KEPT[each](kept)]
    return kept


def people(lines: pd.DataFrame) -> int:
    return int(lines[~lines["bot"]]["visitor_id"].nunique())


@dataclass(frozen=True)
class Noted(Rows):
    """Rows that note the tables that are read."""

    tables: list[str] = field(default_factory=list)

    def __call__(self, q: Query) -> pd.DataFrame:
        self.tables.extend(q.tables())
        return super().__call__(q)
