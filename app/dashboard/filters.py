"""Site, time range and zone: chosen once, kept in the address so that a view can be shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import streamlit as st

from . import clock
from .data import Extent
from .figures.query import Where
from .text import plain

ALL_SITES = "All sites"
# Preset, how far it reaches back, and the time bin that its charts use.
PRESETS: dict[str, tuple[timedelta, int]] = {
    "15m": (timedelta(minutes=15), 60),
    "1h": (timedelta(hours=1), 60),
    "24h": (timedelta(hours=24), 900),
    "7d": (timedelta(days=7), 7200),
    "30d": (timedelta(days=30), 21_600),
}
RANGES = [*PRESETS, "all", "custom"]
DEFAULT_RANGE = "1h"
BINS = (60, 300, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 7 * 86_400, 28 * 86_400)
MOST_BINS = 150
BOUND = ("site", "range", "times", "from", "until")


@dataclass(frozen=True)
class Span:
    """A range of event time, UTC: from `start` (None: the first) until before `end` (None: open)."""

    start: datetime | None
    end: datetime | None
    bin_seconds: int

    def where(self, column: str) -> tuple[Where, ...]:
        lower = () if self.start is None else (Where(column, ">=", self.start),)
        return lower if self.end is None else (*lower, Where(column, "<", self.end))


@dataclass(frozen=True)
class Filters:
    """The chosen filters. `site` None means all; `zone` is an IANA name."""

    site: str | None = None
    preset: str = DEFAULT_RANGE
    start: datetime | None = None
    end: datetime | None = None
    zone: str = "UTC"

    def sites(self) -> tuple[Where, ...]:
        return () if self.site is None else (Where("site", "=", self.site),)

    def span(self, now: datetime, extent: Extent, finest: int = 60) -> Span:
        """The current range. Presets move with the clock; `finest` is the smallest useful bin."""
        if self.preset in PRESETS:
            reach, seconds = PRESETS[self.preset]
            width = max(seconds, finest)
            return Span(clock.floor(now - reach, width), None, width)
        start = self.start if self.preset == "custom" else None
        end = self.end if self.preset == "custom" else None
        first, last = start or extent.first or now, end or extent.newest or now
        width = next((b for b in BINS if (last - first).total_seconds() / b <= MOST_BINS), BINS[-1])
        return Span(start, end, max(width, finest))

    def where(self, column: str, span: Span) -> tuple[Where, ...]:
        return (*self.sites(), *span.where(column))


def choose(sites: Sequence[str], extents: dict[str, Extent], *, page: str, ranged: bool) -> Filters:
    """Draws the filter bar of a page and returns what is chosen; `ranged` is False on pages about now."""
    options = [ALL_SITES, *sorted(sites)]
    if st.session_state.get("page") != page:
        _write_to_address()
    with st.container(horizontal=True, vertical_alignment="bottom", key="filters"):
        site = st.selectbox("Site", options, key="site", bind="query-params", width=220)
        st.session_state.setdefault("range", DEFAULT_RANGE)
        preset = st.segmented_control(
            "Time range",
            RANGES,
            key="range",
            bind="query-params",
            required=True,
            wrap=True,
            disabled=not ranged,
            help=None if ranged else "This page always shows the last hour.",
        )
        local = clock.known_zone(getattr(st.context, "timezone", None))
        choice = st.segmented_control(
            "Times in", ["Local", "UTC"], key="times", default="Local", bind="query-params", required=True
        )
    zone = local if choice == "Local" and local else "UTC"
    chosen = None if site in (None, ALL_SITES) else site
    start = end = None
    if ranged and preset == "custom":
        start, end = _custom(zone, _extent(chosen, extents))
    st.session_state["page"] = page
    return Filters(chosen, preset or DEFAULT_RANGE, start, end, zone)


def _write_to_address() -> None:
    """Lets Streamlit write the filters to the address again, because a change of page removes them.

    Streamlit does this itself only if the previous page was completely drawn.
    """
    for key in BOUND:
        if key in st.session_state:
            st.session_state[key] = st.session_state[key]


def _custom(zone: str, extent: Extent) -> tuple[datetime | None, datetime | None]:
    newest = extent.newest or clock.now()
    first = max(extent.first or newest, newest - timedelta(days=1))
    shown = UTC if zone == "UTC" else clock.ZoneInfo(zone)
    defaults = [t.astimezone(shown).replace(tzinfo=None, second=0, microsecond=0) for t in (first, newest)]
    with st.container(horizontal=True, key="custom-range"):
        start = st.datetime_input(
            f"From ({zone})", defaults[0], key="from", bind="query-params", step=60, width=260
        )
        end = st.datetime_input(
            f"Until ({zone})",
            defaults[1] + timedelta(minutes=1),
            key="until",
            bind="query-params",
            step=60,
            width=260,
        )
    if start and end and start >= end:
        st.warning("“From” must lie before “Until”; the range is empty.")
    return (
        None if start is None else clock.from_wall(start, zone),
        None if end is None else clock.from_wall(end, zone),
    )


def _extent(site: str | None, extents: dict[str, Extent]) -> Extent:
    known = [extents[site]] if site in extents else list(extents.values()) if site is None else []
    firsts, newests = [e.first for e in known if e.first], [e.newest for e in known if e.newest]
    return Extent(min(firsts), max(newests)) if firsts and newests else Extent()


def _show_all() -> None:
    st.session_state["range"] = "all"


def offer_jump(filters: Filters, extents: dict[str, Extent], *, ranged: bool, history: str) -> bool:
    """Shows that the newest data is older than the range, with a link to it. True if it is.

    A page about the present has no range; there the link leads to the page at `history`.
    """
    extent = _extent(filters.site, extents)
    now = clock.now()
    reach = PRESETS[filters.preset][0] if ranged and filters.preset in PRESETS else timedelta(hours=1)
    outside = filters.preset in PRESETS or not ranged
    if extent.newest is None or not outside or extent.newest >= now - reach:
        return False
    who = "The newest line" if filters.site is None else f"The newest line of {plain(filters.site)}"
    what = f"{who} is from {clock.stamp(extent.newest, filters.zone)} {filters.zone}"
    if now - extent.newest > timedelta(days=2):
        what += ", an imported archive by the look of it"
    with st.container(key="older-data"):
        st.info(f"{what}. This view looks at the last {_words(reach)}.", icon=":material/history:")
        if ranged:
            st.button("Show all data", key="jump", on_click=_show_all, icon=":material/arrow_forward:")
        else:
            # A plain browser link, because within a session Streamlit keeps the chosen range.
            query = {"range": "all"} | ({} if filters.site is None else {"site": filters.site})
            st.html(f'<a href="{history}?{urlencode(query)}" target="_self">Show all data →</a>')
    return True


def _words(reach: timedelta) -> str:
    hours = reach.total_seconds() / 3600
    if hours < 1:
        return f"{round(hours * 60)} minutes"
    return "hour" if hours == 1 else f"{hours:.0f} hours" if hours <= 24 else f"{hours / 24:.0f} days"
