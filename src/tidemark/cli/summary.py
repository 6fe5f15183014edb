"""The summary of `tidemark view`, as status lines for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidemark.figures.text import shown

# A terminal of 80 columns keeps the last one free.
COLUMNS = 79
MOST_PAGES = 5
MOST_SLOW_PAGES = 3
NAMES = (
    *("log", "requests", "visitors", "statuses", "countries", "bots", "top pages"),
    *[""] * (MOST_PAGES - 1),
    "slowest",
    *[""] * (MOST_SLOW_PAGES - 1),
    *("rejected", "dashboard"),
)
# What a line has for its text, without its name.
_WIDTH = COLUMNS - max(map(len, NAMES)) - 2
_SO_FAR = " so far"


def rows(
    log: tuple[str, str], figures: dict[str, Any], dashboard: str, *, exact: bool
) -> list[tuple[str, str]]:
    """State and text of each line of NAMES. Figures that are not `exact` say so."""
    if not figures or not (figures["lines"] or exact):
        return [log, *[("", "...")] * (len(NAMES) - 2), ("", dashboard or "...")]
    # Without a terminal, lines are written again when their state changes.
    state = f"exact {figures['lines']}" if exact else "so far"
    width = _WIDTH if exact else _WIDTH - len(_SO_FAR)
    texts = [
        _clipped(text, width) + ("" if exact or not text else _SO_FAR) for text in _texts(figures, width)
    ]
    return [
        log,
        *((state if text else "", text) for text in texts),
        ("running" if dashboard else "", dashboard or "..."),
    ]


def _texts(figures: dict[str, Any], width: int) -> Iterator[str]:
    people = figures["requests"] - figures["bot_requests"]
    yield f"{figures['requests']:,}: {people:,} by people, {figures['bot_requests']:,} by bots"
    yield f"{figures['visitors']:,} with {figures['sessions']:,} sessions and {figures['pageviews']:,} pageviews"
    yield _joined(figures["statuses"].items(), width)
    yield _joined(((each["country"], each["visitors"]) for each in figures["countries"]), width)
    yield _joined(((each["bot_name"], each["requests"]) for each in figures["bots"]), width)
    pages = (f"{each['pageviews']:>9,}  {shown(each['path'])}" for each in figures["pages"])
    yield from _first(pages, MOST_PAGES, "none")
    slow = (
        f"{each['p95']:>8.3g}s  {shown(each['path'])} (p95 of {each['timed']:,})"
        for each in figures["slowest_pages"]
    )
    yield from _first(slow, MOST_SLOW_PAGES, "the lines have no durations")
    reasons = f": {_joined(figures['reasons'].items(), width)}" if figures["reasons"] else ""
    yield f"{figures['rejected']:,} lines{reasons}"


def _first(texts: Iterable[str], most: int, none: str) -> list[str]:
    """The first texts, filled up with empty ones."""
    first = [text for text, _ in zip(texts, range(most), strict=False)] or [none]
    return [*first, *[""] * (most - len(first))]


def _joined(counts: Iterable[tuple[str, int]], width: int) -> str:
    """Names with their numbers, as many as the width takes."""
    text = ""
    for name, number in counts:
        more = f"{text} · {shown(name)} {number:,}" if text else f"{shown(name)} {number:,}"
        if text and len(more) > width:
            break
        text = more
    return text or "none"


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
