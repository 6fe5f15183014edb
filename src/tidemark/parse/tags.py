"""The facts about a visit in the query of a requested page: campaign tags, click ids, the term of a site search."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import pyarrow as pa

from tidemark.engine.arrays import matches, where
from tidemark.parse.remembered import remembered
from tidemark.parse.text import decoded

MOST_CHARACTERS = 200

# Parameters that ad platforms add to a link, by precedence.
CLICK_IDS = ("gclid", "gbraid", "wbraid", "msclkid", "yclid", "ttclid", "twclid", "li_fat_id", "fbclid")
SEARCH_PARAMETERS = ("q", "s", "query", "search", "keyword", "term")
UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content")

_KNOWN = frozenset((*UTM, *CLICK_IDS, *SEARCH_PARAMETERS))
# What separates parameters. Links also have `&amp;` that nothing decoded, a fragment, and a second query.
_SEPARATOR = re.compile(rf"[&;#]|\?(?=(?:{'|'.join((*UTM, *CLICK_IDS))})=)")
# A query with one of these parameters, or with an escaped name.
_TAGGED = rf"(?:^|[&;#?])(?:(?:{'|'.join(sorted(_KNOWN))})=|[^=&;#]*[%+])"


class Tags(NamedTuple):
    """Decoded values, at most MOST_CHARACTERS long; None where the query has none. `click_id` is a parameter's name."""

    utm_source: str | None = None
    utm_medium: str | None = None
    utm_campaign: str | None = None
    utm_term: str | None = None
    utm_content: str | None = None
    click_id: str | None = None
    search_term: str | None = None


NO_TAGS = Tags()


def tagged(query: pa.Array) -> pa.Array:
    """The queries that may have tags, NULL for all others."""
    return where(matches(query, _TAGGED), query, None)


@remembered(100_000)
def tags_of(query: str) -> Tags:
    """The tags of a query, whose parameters are separated by `&`, `;` or `&amp;`. Of a repeated `utm_` parameter the
    first occurrence counts, even if it is empty. A search term of blanks alone is none."""
    first: dict[str, str] = {}
    filled: dict[str, str] = {}
    for parameter in _SEPARATOR.split(query):
        name, _, value = parameter.partition("=")
        # A redirect may have encoded `&amp;` with the name.
        name = _decoded(name).removeprefix("amp;")
        if name in _KNOWN:
            value = _decoded(value)[:MOST_CHARACTERS]
            first.setdefault(name, value)
            if value and not (name in SEARCH_PARAMETERS and value.isspace()):
                filled.setdefault(name, value)
    return Tags(
        **{name: first.get(name) or None for name in UTM},
        click_id=next((name for name in CLICK_IDS if name in filled), None),
        search_term=next((filled[name] for name in SEARCH_PARAMETERS if name in filled), None),
    )


def _decoded(text: str) -> str:
    if "%" not in text and "+" not in text:
        return text
    # As in raw lines, bytes that are no UTF-8 stay distinct.
    return decoded(unquote_to_bytes(text.replace("+", " ")))
