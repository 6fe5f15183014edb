"""The filter bar of every page. Its choices are kept in the address, so that a view can be shared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import streamlit as st

from tidemark.access.asking import Shared
from tidemark.errors import SettingError
from tidemark.figures.declared import declared
from tidemark.figures.extents import Extent, of_site
from tidemark.figures.selection import FIELDS, SIGNS, Comparison, Filter, SelectionError, filters_of
from tidemark.figures.text import plain

from .. import clock
from ..filters import DEFAULT_RANGE, PRESETS, RANGES, Filters
from . import actions
from .edit import editable, save

ALL_SITES = "All sites"
# The range of pages about the present.
LAST_HOUR = "1h"
ALWAYS = "This page always shows the last hour."
COMPARISONS: dict[str, Comparison] = {"Previous period": "previous", "A year before": "year", "None": ""}
BOUND = ("site", "range", "compare", "times", "from", "until", "filter", "apdex", "goal")
SUGGESTIONS = (
    "bot_kind=", "bot_kind!=", "device=mobile", "device=desktop", "channel=organic search", "channel=direct",
    "status^4", "status^5", "method=POST",
)  # fmt: skip


def choose(
    sites: Sequence[str],
    extents: dict[str, Extent],
    *,
    page: str,
    ranged: bool,
    filtered: bool = True,
    home: Path | None = None,
    shared: Shared | None = None,
) -> Filters:
    """Draws the filter bar of a page and returns what is chosen.

    `ranged` is False on pages about now, `filtered` on pages whose figures are not of requests. The settings in
    `home` declare the segments on offer. A share fixes site and filters.
    """
    options = [ALL_SITES, *sorted(sites)]
    if st.session_state.get("page") != page:
        _write_to_address()
    with st.container(horizontal=True, vertical_alignment="bottom", key="filters"):
        if shared is None:
            site = st.selectbox("Site", options, key="site", bind="query-params", width=165)
        else:
            site = shared.site
            st.text(", ".join((site, *shared.filters)), width="content")
        st.session_state.setdefault("range", DEFAULT_RANGE)
        preset = st.segmented_control(
            "Time range",
            RANGES,
            key="range",
            bind="query-params",
            required=True,
            wrap=True,
            disabled=not ranged,
            help=None if ranged else ALWAYS if filtered else "The time range does not apply to this page.",
        )
        compared = st.selectbox(
            "Compare with",
            list(COMPARISONS),
            key="compare",
            bind="query-params",
            width=150,
            disabled=not (ranged and filtered),
            help="The period of equal length right before, or the same weekdays 364 days before.",
        )
        local = clock.known_zone(getattr(st.context, "timezone", None))
        choice = st.segmented_control(
            "Times in", ["Local", "UTC"], key="times", default="Local", bind="query-params", required=True
        )
        texts = _conditions(home, disabled=not filtered) if shared is None else []
    zone = local if choice == "Local" and local else "UTC"
    chosen = None if site in (None, ALL_SITES) else site
    start = end = None
    if ranged and preset == "custom":
        start, end = _custom(zone, of_site(extents, chosen))
    st.session_state["page"] = page
    fixed = () if shared is None else tuple(map(Filter.parse, shared.filters))
    conditions = fixed or (_read(texts) if filtered else ())
    reach = preset or DEFAULT_RANGE if ranged else LAST_HOUR
    return Filters(chosen, reach, start, end, zone, conditions, COMPARISONS.get(compared, "previous"))


def _conditions(home: Path | None, *, disabled: bool) -> list[str]:
    """The conditions as removable chips in their text form, and a form to add one."""
    chosen = list(st.session_state.get("filter", ()))
    texts = st.multiselect(
        "Filters",
        list(dict.fromkeys((*chosen, *SUGGESTIONS))),
        key="filter",
        bind="query-params",
        accept_new_options=True,
        placeholder="Choose, or type such as path^/docs",
        width=250,
        disabled=disabled,
        help="Every filter has to hold: field=value, field!=value, field~part or field^start; an empty value stands "
        f"for what is missing. Fields: {', '.join(FIELDS).replace('_', chr(92) + '_')}."
        if not disabled
        else "Filters of requests do not apply to this page.",
    )
    if not disabled:
        with st.popover("Add", icon=":material/filter_alt:", help="Add a filter or a segment"):
            _segments(home)
            with st.form("add-filter", border=False):
                st.selectbox("Field", FIELDS, key="new-field", format_func=lambda f: f.replace("_", " "))
                st.selectbox("Operator", list(SIGNS.values()), index=1, key="new-operator")
                st.text_input("Value", key="new-value", placeholder="several: one|two")
                st.form_submit_button("Add filter", on_click=_add)
            if home is not None and editable(home):
                _save_as_segment(home)
    return [text for text in texts or [] if text.strip()]


def _segments(home: Path | None) -> None:
    """A button for each segment that the settings declare; it adds the segment's filters."""
    if home is None:
        return
    try:
        found = declared(home)
        segments = {name: found.segment(name) for name in found.of("segments")}
    except SettingError as error:
        st.caption(plain(str(error)))
        return
    fixed = not editable(home)
    for name, filters in segments.items():
        with st.container(horizontal=True, vertical_alignment="center", key=f"segment-{name}-row"):
            st.button(
                plain(name),
                key=f"segment-{name}",
                icon=":material/bookmark:",
                help=plain(", ".join(map(str, filters))),
                on_click=actions.add_filter,
                args=filters,
            )
            if fixed:
                continue
            sure = st.session_state.get("segment-asked") == name
            st.button(
                f"Remove {plain(name)}?" if sure else "Remove",
                key=f"segment-{name}-remove",
                icon=":material/delete:",
                type="secondary" if sure else "tertiary",
                help=None if sure else plain(f"Remove the segment {name}"),
                on_click=_remove_segment if sure else _ask,
                args=(home, name) if sure else (name,),
            )
    if said := st.session_state.pop("segment-said", ""):
        st.caption(plain(said))


def _save_as_segment(home: Path) -> None:
    """Saves the bar's filters under a name."""
    chosen = [text for text in st.session_state.get("filter", ()) if text.strip()]
    with st.form("save-segment", border=False):
        st.text_input(
            "Save the filters as a segment", key="segment-name", placeholder="Name", disabled=not chosen,
            help="Segments are in the settings file, for everybody who uses this dashboard."
            if chosen
            else "Choose filters first.",
        )  # fmt: skip
        st.form_submit_button(
            "Save segment", on_click=_save_segment, args=(home, chosen), disabled=not chosen
        )


def _save_segment(home: Path, chosen: list[str]) -> None:
    name = str(st.session_state["segment-name"]).strip()
    try:
        if name in declared(home).of("segments"):
            raise SelectionError(f"there is already a segment {name!r}; remove it first")
        save(home, "segments", name, {"filter": chosen})
    except SettingError as error:
        st.session_state["segment-said"] = f"Not saved: {error}."
    else:
        st.session_state["segment-name"] = ""
        st.session_state["segment-said"] = f"Saved as {name}."


def _ask(name: str) -> None:
    st.session_state["segment-asked"] = name


def _remove_segment(home: Path, name: str) -> None:
    st.session_state.pop("segment-asked", None)
    try:
        save(home, "segments", name, None)
    except SelectionError as error:
        st.session_state["segment-said"] = f"Not removed: {error}."


def _add() -> None:
    state = st.session_state
    sign = next(sign for sign, operator in SIGNS.items() if operator == state["new-operator"])
    state["filter"] = list(
        dict.fromkeys((*state.get("filter", ()), f"{state['new-field']}{sign}{state['new-value']}"))
    )


def _read(texts: Sequence[str]) -> tuple[Filter, ...]:
    """The conditions that can be read; the others are told."""
    good = []
    for text in texts:
        try:
            Filter.parse(text)
        except SelectionError as error:
            st.warning(plain(f"This filter is not used: {error}."), icon=":material/filter_alt_off:")
        else:
            good.append(text)
    return filters_of(good)


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
    shown = UTC if zone == "UTC" else ZoneInfo(zone)
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


def _show_all() -> None:
    st.session_state["range"] = "all"


def offer_jump(filters: Filters, extents: dict[str, Extent], *, ranged: bool, history: str) -> bool:
    """Shows that the newest data is older than the range, with a link to it. True if it is.

    A page about the present has no range; there the link leads to the page at `history`.
    """
    extent = of_site(extents, filters.site)
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
