"""First and newest event time of each site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tidemark.figures.query import Columns, Where, greatest, least, query
from tidemark.figures.rows import Rows

SITES = "quality/sites"
TRAFFIC = "gold/traffic"
INVENTORY = "quality/tables"


@dataclass(frozen=True)
class Extent:
    """Event times that a site's data spans (UTC); both None where there is none."""

    first: datetime | None = None
    newest: datetime | None = None


def extents(rows: Rows) -> dict[str, Extent]:
    """First and newest event time per site, from the accounts of the sites or, without them, gold."""
    if rows.reader.version(SITES) is not None:
        bounds = rows(
            query(SITES, {"site": "site", "first": "first_event_time", "newest": "newest_event_time"})
        )
    elif rows.reader.version(TRAFFIC) is not None:
        columns: Columns = {
            "site": "site",
            "first": least("window_start"),
            "newest": greatest("window_end"),
        }
        bounds = rows(query(TRAFFIC, columns, group_by=["site"]))
    else:
        return {}
    bounds = bounds.dropna()
    return {
        site: Extent(first.to_pydatetime(), newest.to_pydatetime())
        for site, first, newest in bounds[["site", "first", "newest"]].itertuples(index=False)
    }


def sites(rows: Rows) -> set[str]:
    """The sites that have lines, also those whose lines were all rejected; empty before the first lines."""
    if rows.reader.version(SITES) is None:
        return set(extents(rows))
    return set(rows(query(SITES, ["site"]))["site"])


def incomplete(rows: Rows) -> list[str]:
    """The tables whose history is still being filled, such as gold.latency."""
    if rows.reader.version(INVENTORY) is None:
        return []
    tables = rows(query(INVENTORY, ["table"], [Where("complete", "=", False)], order_by=["table"]))
    return [str(table) for table in tables["table"]]


def of_site(known: Mapping[str, Extent], site: str | None) -> Extent:
    """The extent of one site, or of all of them together."""
    if site is not None:
        return known.get(site, Extent())
    firsts = [e.first for e in known.values() if e.first]
    newests = [e.newest for e in known.values() if e.newest]
    return Extent(min(firsts), max(newests)) if firsts and newests else Extent()
