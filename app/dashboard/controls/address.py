"""The choices of the filter bar as the page's address. The address is written whenever a choice changes, as an entry of
the browser's history, and read whenever it is not the one that was written: at first, and after Back or Forward."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import streamlit as st

from tidemark.figures.selection import Comparison, SelectionError, moment

from .. import clock
from ..filters import CUSTOM, DEFAULT_RANGE, RANGES

ALL_SITES = "All sites"
LOCAL, UTC = "Local", "UTC"
COMPARISONS: dict[str, Comparison] = {"Previous period": "previous", "A year before": "year", "None": ""}
PREVIOUS = "Previous period"
NAMES = ("site", "range", "from", "until", "compare", "times", "filter", "chart", "session", "demo")
# The choice, the address that was written last, and what of an address cannot be followed, by session.
CHOICE, WRITTEN, REFUSED = "choice", "address written", "address refused"
# An offset whose plus sign was not escaped.
_OFFSET = re.compile(r" (?=\d\d:?\d\d$)")


@dataclass(frozen=True)
class Choice:
    """The choices of the filter bar. `site` None: all; `start` and `end` are of a custom range; `chart` is the figure
    that the page Overview shows over time, `session` the id of the session in the dialog; `demo` whether the demo's
    line is hidden."""

    site: str | None = None
    range: str = DEFAULT_RANGE
    start: datetime | None = None
    end: datetime | None = None
    compare: str = PREVIOUS
    times: str = LOCAL
    filters: tuple[str, ...] = ()
    chart: str = ""
    session: str = ""
    demo: str = ""

    @property
    def zone(self) -> str:
        """The chosen zone; UTC where the browser's is not known."""
        local = clock.known_zone(getattr(st.context, "timezone", None))
        return local if self.times == LOCAL and local else "UTC"

    @property
    def named(self) -> tuple[str, ...]:
        """Site and range for the name of a file."""
        bounds = [f"{at.astimezone(ZoneInfo(self.zone)):%Y-%m-%d}" for at in (self.start, self.end) if at]
        site = re.sub(r"[^A-Za-z0-9.-]+", "-", self.site or "")
        return tuple(filter(None, (site, *(bounds if self.range == CUSTOM else [self.range]))))

    @property
    def parameters(self) -> dict[str, list[str]]:
        """The address of the choice, without what is the default."""
        custom = self.range == CUSTOM
        every = {
            "site": self.site or "",
            "range": "" if self.range == DEFAULT_RANGE else self.range,
            "from": _written(self.start, self.zone) if custom else "",
            "until": _written(self.end, self.zone) if custom else "",
            "compare": "" if self.compare == PREVIOUS else self.compare,
            "times": "" if self.times == LOCAL else self.times,
            "chart": self.chart,
            "session": self.session,
            "demo": self.demo,
        }
        return {name: [value] for name, value in every.items() if value} | (
            {"filter": list(self.filters)} if self.filters else {}
        )


def choice() -> Choice:
    stored: Choice = st.session_state.get(CHOICE, Choice())
    return stored


def choose(**changes: Any) -> None:
    """A callback: changes fields of the choice."""
    st.session_state[CHOICE] = replace(choice(), **changes)


def read(sites: Collection[str], page: str) -> Choice:
    """The choice on a page. `sites` are those there are, empty if that is not known."""
    state = st.session_state
    address = {name: st.query_params.get_all(name) for name in NAMES}
    address = {name: values for name, values in address.items() if values}
    # A link within the dashboard that has no parameters keeps the choice.
    kept = not address and state.get("page") not in (None, page)
    if CHOICE not in state or (not kept and address != state.get(WRITTEN)):
        state[CHOICE], state[REFUSED] = parsed(address, sites)
        state[WRITTEN] = address
    return choice()


def write() -> None:
    """Writes the choice to the address where it says something else."""
    parameters = choice().parameters
    address = {name: values for name in NAMES if (values := st.query_params.get_all(name))}
    if parameters != address:
        # One update is one entry of the history; an empty list removes a parameter.
        st.query_params.update({name: parameters.get(name, []) for name in NAMES})
    st.session_state[WRITTEN] = parameters


def link() -> list[tuple[str, str]]:
    """The parameters of the choice for a link to another page, which begins without a dialog."""
    parameters = replace(choice(), session="").parameters
    return [(name, value) for name, values in parameters.items() for value in values]


def refused() -> Sequence[str]:
    """The parts of the address that are invalid, as sentences."""
    texts: Sequence[str] = st.session_state.get(REFUSED, ())
    return texts


def accept() -> None:
    """A callback: goes on without what cannot be followed."""
    st.session_state[REFUSED] = ()


def parsed(address: Mapping[str, Sequence[str]], sites: Collection[str]) -> tuple[Choice, tuple[str, ...]]:
    """The choice of an address, and what of it cannot be followed."""
    one = {name: values[-1] for name, values in address.items()}
    texts: dict[str, Any] = {name: one.get(name, "") for name in ("chart", "session", "demo")}
    result = Choice(filters=tuple(address.get("filter", ())), **texts)
    wrong = []
    site = one.get("site", ALL_SITES)
    if site == ALL_SITES or not sites or site in sites:
        result = replace(result, site=None if site == ALL_SITES else site)
    else:
        wrong.append(f"There is no site {site!r}, or you may not see it.")
    for name, known in (("range", RANGES), ("compare", list(COMPARISONS)), ("times", [LOCAL, UTC])):
        if one.get(name, known[0]) in known:
            known_value: dict[str, Any] = {name: one[name]} if name in one else {}
            result = replace(result, **known_value)
        else:
            wrong.append(f"{name}={one[name]} is none of {', '.join(known)}.")
    try:
        result = replace(
            result, start=_moment(one.get("from"), result), end=_moment(one.get("until"), result)
        )
    except SelectionError as error:
        wrong.append(f"{error}.")
    if result.start is not None and result.end is not None and result.start >= result.end:
        wrong.append("The range ends before it begins.")
        result = replace(result, start=None, end=None)
    if result.range != CUSTOM and (result.start or result.end) and "range" not in one:
        result = replace(result, range=CUSTOM)
    return result, tuple(wrong)


def _moment(text: str | None, chosen: Choice) -> datetime | None:
    return None if not text else moment(_OFFSET.sub("+", text), chosen.zone)


def _written(at: datetime | None, zone: str) -> str:
    """A time with its offset, so that the address means the same in another zone."""
    if at is None:
        return ""
    local = at.astimezone(ZoneInfo(zone))
    text = local.isoformat(timespec="minutes" if not local.second else "seconds")
    return text.removesuffix("+00:00") if zone == "UTC" else text
