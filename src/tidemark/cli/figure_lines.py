"""The figures of `tidemark view` as status lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MOST_PAGES = 5
MOST_COUNTRIES = 8
NAMES = (
    *("log", "requests", "pageviews", "visitors", "sessions", "statuses", "countries", "top pages"),
    *[""] * (MOST_PAGES - 1),
    *("rejected", "dashboard"),
)
_WAITING = "", "..."


def rows(
    log: tuple[str, str], figures: dict[str, Any], exact: tuple[bool, bool], address: str
) -> list[tuple[str, str]]:
    """State and text of each line of NAMES. `exact`: whether the figures of lines and of activity are."""
    of_lines = "lines" in figures and bool(figures["lines"] or exact[0])
    of_activity = "pages" in figures and bool(figures["pages"] or exact[1])

    def line(text: str) -> tuple[str, str]:
        return _row(text, exact[0])

    def later(text: str) -> tuple[str, str]:
        return _row(text, exact[1])

    counts = [
        line(f"{figures[name]:,}{_bots(figures) if name == 'requests' else ''}") if of_lines else _WAITING
        for name in ("requests", "pageviews", "visitors")
    ]
    pages = [
        later(f"{page['pageviews']:>9,}  {printable(page['path'])}") for page in figures.get("pages", ())
    ]
    none = ("", "") if of_activity else _WAITING
    return [
        log,
        *counts,
        later(f"{figures['sessions']:,}") if of_activity else _WAITING,
        later(_joined(figures["statuses"].items())) if of_activity else _WAITING,
        line(_joined((c["country"], c["visitors"]) for c in figures["countries"][:MOST_COUNTRIES]))
        if of_lines
        else _WAITING,
        *[*pages, *[none] * MOST_PAGES][:MOST_PAGES],
        line(f"{figures['rejected']:,} lines") if of_lines else _WAITING,
        ("running", f"{address} (Ctrl-C stops)") if address else _WAITING,
    ]


def printable(text: str) -> str:
    """Text of a log line, which anyone can write, with its control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _row(text: str, exact: bool) -> tuple[str, str]:
    return ("exact", text) if exact else ("so far", f"{text} so far")


def _bots(figures: dict[str, Any]) -> str:
    return f", {figures['bot_requests']:,} of them by bots" if figures["bot_requests"] else ""


def _joined(counts: Iterable[tuple[str, int]]) -> str:
    return " · ".join(f"{name} {number:,}" for name, number in counts) or "none"
