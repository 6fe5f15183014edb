"""The filter bar of every page. Its choices are kept in the address, so that a view can be shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import streamlit as st

from tidemark.access.asking import Shared
from tidemark.errors import SettingError
from tidemark.figures import calendar
from tidemark.figures.declared import declared
from tidemark.figures.extents import Extent, of_site
from tidemark.figures.selection import FIELDS, SIGNS, Filter, SelectionError, filters_of
from tidemark.figures.text import clipped, plain, shown

from .. import clock
from ..filters import CUSTOM, LABELS, RANGES, Filters
from . import actions, address
from .edit import editable, save

# Characters of a filter's chip.
CHIP = 40
# The range of pages about the present.
LAST_HOUR = "1h"
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
    """Draws the filter bar of a page and returns what is chosen, which is in the address, too.

    `ranged` is False on pages about now, `filtered` on pages whose figures are not of requests; what does not apply is
    not shown. The settings in `home` declare the segments on offer. A share fixes site and filters.
    """
    choice = address.read(() if shared is not None else sites, page)
    with st.container(horizontal=True, vertical_alignment="center", key="filters", gap="small"):
        if shared is None:
            options = [address.ALL_SITES, *sorted({*sites, *([choice.site] if choice.site else [])})]
            _select("Site", "site", options, choice.site or address.ALL_SITES, width=165)
        else:
            st.text(", ".join((shared.site, *shared.filters)), width="content")
        if ranged:
            _select("Time range", "range", RANGES, choice.range, width=160, format_func=LABELS.__getitem__)
        site = shared.site if shared is not None else choice.site
        if ranged and choice.range == CUSTOM:
            choice = _custom(choice, of_site(extents, site))
        if filtered and shared is None:
            _conditions(choice, home)
        _folded(choice, compared=ranged and filtered)
    st.session_state["page"] = page
    if not address.refused():
        address.write()
    fixed = () if shared is None else tuple(map(Filter.parse, shared.filters))
    conditions = fixed or (_read(choice.filters) if filtered and shared is None else ())
    start, end = (choice.start, choice.end) if ranged and choice.range == CUSTOM else (None, None)
    reach = choice.range if ranged else LAST_HOUR
    comparison = address.COMPARISONS[choice.compare]
    return Filters(site, reach, start, end, choice.zone, conditions, comparison)


def _select(
    label: str,
    name: str,
    options: Sequence[str],
    value: str,
    *,
    width: int,
    format_func: Callable[[str], str] = str,
) -> None:
    """A list to choose a field of the address from, without typing, for which a phone would show its keyboard."""
    st.session_state[name] = value
    st.selectbox(
        label,
        options,
        key=name,
        width=width,
        label_visibility="collapsed",
        filter_mode=None,
        format_func=format_func,
        on_change=_take,
        args=(name,),
    )


def _take(name: str) -> None:
    """A callback: takes over what a widget of the bar has."""
    value: Any = st.session_state[name]
    if name == "site":
        value = None if value == address.ALL_SITES else value
    if name == "filter":
        name, value = "filters", tuple(text for text in value if text.strip())
    if name == "range" and value == CUSTOM:
        # It begins as the range that was shown.
        before = address.choice()
        span = Filters(preset=before.range, zone=before.zone).span(clock.now(), Extent())
        address.choose(start=span.start, end=span.start and (span.end or clock.floor(clock.now(), 60)))
    address.choose(**{name: value})


def _folded(choice: address.Choice, *, compared: bool) -> None:
    """Rarely used choices, in a menu."""
    with st.popover("", icon=":material/tune:", help="Comparison and time zone", key="more"):
        if compared:
            _segmented(
                "Compare with",
                "compare",
                list(address.COMPARISONS),
                choice.compare,
                help="The period right before, of equal length or the same elapsed part of the unit before; or a year "
                "before, by the same weekdays.",
            )
        _segmented("Times in", "times", [address.LOCAL, address.UTC], choice.times)


def _segmented(label: str, name: str, options: Sequence[str], value: str, help: str | None = None) -> None:
    st.session_state[name] = value
    st.segmented_control(
        label, options, key=name, required=True, help=help, on_change=_take, args=(name,), wrap=True
    )


def _conditions(choice: address.Choice, home: Path | None) -> None:
    """The conditions as chips that a click removes, and a menu that adds one."""
    st.session_state["filter"] = list(choice.filters)
    with st.popover(
        "Filter", icon=":material/filter_alt:", help="Add a filter or a segment", key="filter-menu"
    ):
        st.multiselect(
            "Filters",
            list(dict.fromkeys((*choice.filters, *SUGGESTIONS))),
            key="filter",
            accept_new_options=True,
            placeholder="Choose, or type such as path^/docs",
            on_change=_take,
            args=("filter",),
            help="Every filter has to hold: field=value, field!=value, field~part or field^start; an empty value "
            f"stands for what is missing. Fields: {', '.join(FIELDS).replace('_', chr(92) + '_')}.",
        )
        _segments(home)
        with st.form("add-filter", border=False):
            st.selectbox("Field", FIELDS, key="new-field", format_func=lambda f: f.replace("_", " "))
            st.selectbox("Operator", list(SIGNS.values()), index=1, key="new-operator")
            st.text_input("Value", key="new-value", placeholder="several: one|two")
            st.form_submit_button("Add filter", on_click=_add)
        if home is not None and editable(home):
            _save_as_segment(home, list(choice.filters))
    for number, text in enumerate(choice.filters):
        st.button(
            plain(clipped(shown(text), CHIP)),
            key=f"chip-{number}",
            icon=":material/close:",
            help=plain(f"Remove the filter {text}"),
            on_click=actions.remove_filter,
            args=(text,),
        )


def _segments(home: Path | None) -> None:
    """A button for each segment that the settings declare; it adds the segment's filters."""
    if home is None:
        return
    try:
        known = declared(home)
        segments = {name: known.segment(name) for name in known.of("segments")}
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
            sure = st.session_state.get("segment-confirming") == name
            st.button(
                f"Remove {plain(name)}?" if sure else "Remove",
                key=f"segment-{name}-remove",
                icon=":material/delete:",
                type="secondary" if sure else "tertiary",
                help=None if sure else plain(f"Remove the segment {name}"),
                on_click=_remove_segment if sure else _ask,
                args=(home, name) if sure else (name,),
            )
    if message := st.session_state.pop("segment-message", ""):
        st.caption(plain(message))


def _save_as_segment(home: Path, chosen: list[str]) -> None:
    """Saves the bar's filters under a name."""
    with st.form("save-segment", border=False):
        st.text_input(
            "Save the filters as a segment",
            key="segment-name",
            placeholder="Name",
            disabled=not chosen,
            help="Segments are in the settings file, for everybody who uses this dashboard."
            if chosen
            else "Choose filters first.",
        )
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
        st.session_state["segment-message"] = f"Not saved: {error}."
    else:
        st.session_state["segment-name"] = ""
        st.session_state["segment-message"] = f"Saved as {name}."


def _ask(name: str) -> None:
    st.session_state["segment-confirming"] = name


def _remove_segment(home: Path, name: str) -> None:
    st.session_state.pop("segment-confirming", None)
    try:
        save(home, "segments", name, None)
    except SelectionError as error:
        st.session_state["segment-message"] = f"Not removed: {error}."


def _add() -> None:
    state = st.session_state
    sign = next(sign for sign, operator in SIGNS.items() if operator == state["new-operator"])
    actions.add_texts(f"{state['new-field']}{sign}{state['new-value']}")


def _read(texts: Sequence[str]) -> tuple[Filter, ...]:
    """The conditions that can be read; shows an error for the others."""
    good = []
    for text in texts:
        try:
            Filter.parse(text)
        except SelectionError as error:
            st.warning(plain(f"This filter is not used: {error}."), icon=":material/filter_alt_off:")
        else:
            good.append(text)
    return filters_of(good)


def _custom(choice: address.Choice, extent: Extent) -> address.Choice:
    """The two times of a custom range: at first the last day of data, which the address has from then on."""
    zone = choice.zone
    if choice.start is None and choice.end is None:
        newest = clock.floor(extent.newest or clock.now(), 60) + timedelta(minutes=1)
        address.choose(start=max(extent.first or newest, newest - timedelta(days=1)), end=newest)
        choice = address.choice()
    for name, label, at in (("start", "From", choice.start), ("end", "Until", choice.end)):
        # Pages have keys of their own, such as "start".
        key = f"custom-{name}"
        st.session_state[key] = None if at is None else at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        st.datetime_input(
            f"{label} ({zone})",
            key=key,
            step=60,
            width=190,
            label_visibility="collapsed",
            on_change=_take_time,
            args=(name, zone),
            help=None,
        )
    if choice.start is not None and choice.end is not None and choice.start >= choice.end:
        st.warning("The range ends before it begins; it is empty.")
    return choice


def _take_time(name: str, zone: str) -> None:
    """A callback: takes over a time of the custom range."""
    value = st.session_state[f"custom-{name}"]
    address.choose(**{name: None if value is None else calendar.utc(value, zone)})


def refuse() -> bool:
    """Says what of the address cannot be followed, and offers to go on without it. True if there is something."""
    wrong = address.refused()
    if not wrong:
        return False
    with st.container(key="refused"):
        st.warning(
            "This address cannot be followed. " + " ".join(map(plain, wrong)), icon=":material/link_off:"
        )
        st.button(
            "Continue without it", key="accept", icon=":material/arrow_forward:", on_click=address.accept
        )
    return True


def _show_all() -> None:
    address.choose(range="all")


def offer_jump(filters: Filters, extents: dict[str, Extent], *, ranged: bool) -> bool:
    """Shows that the newest data is older than the range, with a link to it. True if it is.

    A page about the present has no range; there the link leads to the first page.
    """
    extent = of_site(extents, filters.site)
    now = clock.now()
    hour = timedelta(hours=1)
    start = filters.span(now, extent).start if ranged and filters.preset != CUSTOM else now - hour
    if extent.newest is None or start is None or filters.preset == CUSTOM or extent.newest >= start:
        return False
    who = "The newest line" if filters.site is None else f"The newest line of {plain(filters.site)}"
    what = f"{who} is from {clock.stamp(extent.newest, filters.zone)} {filters.zone}"
    if now - extent.newest > timedelta(days=2):
        what += ", an imported archive by the look of it"
    range_ = LABELS[filters.preset].lower()
    with st.container(key="older-data"):
        st.info(f"{what}. This page shows: {range_}.", icon=":material/history:")
        if ranged:
            st.button("Show all data", key="jump", on_click=_show_all, icon=":material/arrow_forward:")
        else:
            # A plain browser link, because within a session Streamlit keeps the chosen range.
            query = {"range": "all"} | ({} if filters.site is None else {"site": filters.site})
            st.html(f'<a href="./?{urlencode(query)}" target="_self">Show all data →</a>')
    return True
