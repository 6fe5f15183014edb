"""Colours with a meaning, the same on every page, readable on the theme's background."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import streamlit as st

from tidemark.figures.timespec import Paint

OTHER = "Other"
LIGHT = {"good": "#0b7f5f", "warn": "#a86400", "bad": "#c93636", "info": "#2f6fde", "quiet": "#64748b"}
DARK = {"good": "#34d399", "warn": "#fbbf24", "bad": "#f87171", "info": "#60a5fa", "quiet": "#94a3b8"}
# Each has a contrast of at least 3:1 with its background (WCAG 2.2, 1.4.11).
LIGHT_SERIES = (
    "#0b7a83", "#c2560c", "#3f6fd1", "#b0479b", "#4f7d1a", "#8a6d00", "#7a5fd0", "#a34a4a", "#2d7d4f", "#3d348b",
    "#9c5a2e", "#86518f",
)  # fmt: skip
DARK_SERIES = (
    "#2dd4bf", "#fb9a4b", "#7aa5ff", "#e183d0", "#a3d15a", "#f0cf4a", "#b39dff", "#f29a9a", "#6fd6a0", "#e3e9f7",
    "#d9a882", "#d3a6dd",
)  # fmt: skip
# Positions of colours that look alike.
ALIKE = ((0, 8), (1, 5, 7, 10), (2, 6, 9, 11), (3, 6, 11), (4, 5, 8), (7, 11))
# Names that have a colour of their own: a tone, or a position in the series' colours.
FIXED: dict[str, str | int] = {
    "Visitors": 0, "Requests": 2, "Pageviews": 1, "Bytes": 6, "Sessions": 4, "Bounced": "quiet",
    "Two pages or more": 4, "People": 0, "Bots": 3, "AI crawlers": 6, "Visits from AI assistants": 1,
    "New visitors": 0, "Returning visitors": 2, "All cohorts shown": 0,
    "Pages of a flow": 0, "Other pages of a flow": "quiet", "Left a flow": 10,
    "2xx": "good", "3xx": "info", "4xx": "warn", "5xx": "bad", "Other statuses": "quiet",
    "p50": 0, "p95": 1, "p99": 3,
    "Direct": 0, "Organic search": 2, "Organic social": 1, "AI assistants": 6, "Referral": 3, "Email": 5,
    "Paid search": 9, "Paid social": 10, "Organic video": 7, "Display": 11,
    "AI crawler": 6, "Search engine": 2, "SEO": 1, "Monitoring": 4, "Scanner": 7, "HTTP library": 5,
    "Social preview": 3, "Feed reader": 9, "Archiver": 10, "Academic": 8, "Advertising": 11,
    "Holds": "good", "Failed": "bad", "On time": "good", "Late": "warn", "Rejected": "bad", "Duplicate": "quiet",
    "United States": 0, "India": 1, "Germany": 2, "United Kingdom": 3, "China": 4, "Japan": 5, "Brazil": 6, "France": 7,
    "Canada": 8, "Indonesia": 9, "Australia": 10, "Mexico": 11,
    "requests": 2, "activity": 1, "Lines": 2, OTHER: "quiet", "Unknown": "quiet",
}  # fmt: skip


def is_dark() -> bool:
    """Whether the reader of the page has the dark theme on."""
    return getattr(st.context.theme, "type", None) == "dark"


def tones() -> dict[str, str]:
    """Colours of good, warn, bad, info and quiet."""
    return DARK if is_dark() else LIGHT


def ink() -> str:
    """The colour of text within a chart."""
    return "#e4eaf2" if is_dark() else "#1c2733"


def paint(names: Sequence[str]) -> Paint:
    """The colours of a chart with series of these names."""
    return Paint(tuple(of(names)), tones()["quiet"], "#10151e" if is_dark() else "#ffffff")


def of(names: Sequence[str]) -> list[str]:
    """A colour for each name. A name without one of its own gets one by its text, so that it hardly ever differs
    between charts. Colours of one chart only look alike where there are too many of them to differ."""
    dark = is_dark()
    series, tone = (DARK_SERIES, DARK) if dark else (LIGHT_SERIES, LIGHT)
    tone_of = {name: FIXED[name] for name in names if name in FIXED}
    taken = {place for place in tone_of.values() if isinstance(place, int)}
    for name in sorted(set(names) - tone_of.keys()):
        start = crc32(name.encode()) % len(series)
        places = [(start + step) % len(series) for step in range(len(series))]
        free = [place for place in places if place not in taken] or [start]
        apart = [place for place in free if not any(_alike(place, other) for other in taken)]
        tone_of[name] = (apart or free)[0]
        taken.add(int(tone_of[name]))
    return [
        tone[place] if isinstance(place, str) else series[place] for place in map(tone_of.__getitem__, names)
    ]


def _alike(one: int, other: int) -> bool:
    return any(one in family and other in family for family in ALIKE)
