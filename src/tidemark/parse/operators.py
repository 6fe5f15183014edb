"""Operators of AI products: whose bots crawl, and whose assistants send visits."""

from __future__ import annotations

from tidemark.parse.lists import rows
from tidemark.parse.sources import names_of


def ai_operators() -> dict[str, dict[str, str]]:
    """The operators, as `bots` by their names in lower case, and as `sources` by the names, hosts and aliases under
    which silver.requests may have them."""
    bots: dict[str, str] = {}
    products: dict[str, str] = {}
    for operator, crawlers, sold in rows("ai_operators.tsv"):
        bots |= dict.fromkeys(filter(None, crawlers.split(",")), operator)
        products |= dict.fromkeys(filter(None, sold.lower().split(",")), operator)
    sources = {key: products.get(name, name.capitalize()) for key, name in names_of("ai").items()}
    return {"bots": bots, "sources": sources}
