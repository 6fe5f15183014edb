"""The pages that are viewed most, as suggestions for fields that ask for a page."""

from __future__ import annotations

from tidemark.figures import pages
from tidemark.figures.reader import Reader, ReadError
from tidemark.figures.text import shown

from .. import clock
from ..filters import Filters
from ..panel import Look


def suggested_pages(reader: Reader, filters: Filters, most: int) -> list[str]:
    """At most this many pages, by pageviews. Empty if they cannot be read, which panels report."""
    look = Look(reader, filters, clock.now(), "suggested")
    try:
        return [shown(path) for path in pages.pages(look.rows, look.selection(), most)["path"]]
    except ReadError:
        return []
