"""The pages that are viewed most, as suggestions for fields that ask for a page."""

from __future__ import annotations

from tidemark.figures import pages
from tidemark.figures.reader import Reader, ReadError
from tidemark.figures.text import shown

from .. import clock
from ..filters import Filters
from ..panel import Look


def suggested_pages(reader: Reader, filters: Filters, most: int) -> list[str]:
    """At most so many pages, those with most pageviews first; none where they cannot be read, which panels tell."""
    look = Look(reader, filters, clock.now(), "suggested")
    try:
        return [shown(path) for path in pages.pages(look.rows, look.selection(), most)["path"]]
    except ReadError:
        return []
