"""The fields by which a form shows and changes a table of `tidemark.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from tidemark.figures.alert_rules import METRICS, WINDOWS
from tidemark.figures.declared import SCOPES
from tidemark.figures.selection import FIELDS


@dataclass(frozen=True)
class Field:
    """A setting of a table. `lines` are several texts, one a line; a `secret` is never shown, and stays if nothing is
    typed. `choices` are offered, the first of them if nothing is set. `half`: two such fields stand side by side."""

    name: str
    label: str
    kind: Literal["text", "lines", "number", "whole", "flag", "choice", "secret"] = "text"
    help: str | None = None
    hint: str = ""
    choices: Sequence[str] = ()
    half: bool = False


def draw(
    fields: Sequence[Field], values: Mapping[str, Any], key: str, taken: Mapping[str, Sequence[str]]
) -> None:
    """Draws the fields with their present values; `taken` has choices of fields that only the page knows."""
    cells: list[Any] = []
    for each in fields:
        if each.half:
            cells = cells or list(st.columns(2))
            place = cells.pop(0)
        else:
            cells, place = [], st.container()
        with place:
            _draw(each, values.get(each.name), f"{key}-{each.name}", taken.get(each.name, ()))


def _draw(each: Field, value: Any, key: str, taken: Sequence[str]) -> None:
    match each.kind:
        case "lines":
            st.text_area(
                each.label, "\n".join(map(str, value or ())), key=key, help=each.help, placeholder=each.hint
            )
        case "flag":
            st.checkbox(each.label, bool(value), key=key, help=each.help)
        case "number":
            number = None if value is None else float(value)
            st.number_input(
                each.label, value=number, key=key, help=each.help, format="%g", placeholder=each.hint
            )
        case "whole":
            whole = int(value) if value else None
            st.number_input(each.label, value=whole, step=1, key=key, help=each.help, placeholder=each.hint)
        case "choice":
            offered = list(dict.fromkeys((*each.choices, *taken, *([value] if value else []))))
            place = offered.index(value) if value else 0
            st.selectbox(
                each.label, offered, place, key=key, help=each.help, format_func=lambda v: v or "All sites"
            )
        case "secret":
            hint = f"{len(value)} set; typed lines replace them" if value else each.hint
            st.text_area(each.label, "", key=key, help=each.help, placeholder=hint)
        case _:
            st.text_input(each.label, str(value or ""), key=key, help=each.help, placeholder=each.hint)


def read(fields: Sequence[Field], values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The values with what has been typed; without what is left empty."""
    entered = dict(values)
    for each in fields:
        typed = st.session_state.get(f"{key}-{each.name}")
        if each.kind in ("lines", "secret"):
            typed = [line.strip() for line in str(typed or "").splitlines() if line.strip()]
        if each.kind == "secret" and not typed:
            continue
        if isinstance(typed, str):
            typed = typed.strip()
        entered.pop(each.name, None)
        if typed not in (None, "", [], False):
            entered[each.name] = typed
    return entered


_SITE = Field("site", "Site", "choice", choices=("",), half=True)
_FILTER = Field(
    "filter",
    "Filters, one a line",
    "lines",
    hint="device=mobile\npath^/docs",
    help=f"All must hold: field=value, field!=value, field~part, field^start. Fields: {', '.join(FIELDS)}.".replace(
        "_", "\\_"
    ),
)
GOAL = (
    Field(
        "path",
        "Path of a page",
        hint="/welcome*",
        half=True,
        help="The whole path without query; * matches any characters. Case matters.",
    ),
    _SITE,
    Field("method", "Method of the path's requests", hint="any, such as POST", half=True),
    Field("status", "Status of the path's requests", "whole", hint="any", half=True),
    Field("download", "Or downloads: extensions, one a line", "lines", hint="pdf\nzip", half=True),
    Field("search", "Or any search on the site", "flag", half=True),
)
FUNNEL = (
    Field(
        "steps",
        "Steps in order, one a line",
        "lines",
        hint="/cart\n/checkout\ngoal:signup",
        help="Two to eight paths, in which * matches any characters, or goal:NAME of a goal that is a page.",
    ),
    Field("scope", "Within one", "choice", choices=SCOPES, half=True),
    Field(
        "within",
        "Time from the first step",
        hint="24h",
        half=True,
        help="Of a visitor, such as 30m, 24h or 7d.",
    ),
)
SEGMENT = (_FILTER,)
ALERT = (
    Field("metric", "Metric", "choice", choices=METRICS, half=True,
          help="Shares are between 0 and 1, p95 is in seconds; goal:NAME counts the requests that match a goal."),
    Field("window", "Window", "choice", choices=tuple(WINDOWS), half=True),
    Field("above", "Fires above", "number", half=True),
    Field("below", "or below", "number", half=True),
    Field("deviation", "or so many deviations off", "number", half=True,
          help="Times 1.4826 times the median absolute deviation from the median of the last four weeks."),
    _SITE,
    Field("breaches", "After this many windows", "whole", hint="1", half=True),
    Field("of", "of so many", "whole", hint="1", half=True),
    _FILTER,
    Field("to", "Notify, one URL a line", "secret", hint="mailto://… or $NAME",
          help="Notification URLs as Apprise takes them, or $NAME for some in an environment variable of the pipeline. "
          "They are not shown again."),
)  # fmt: skip
HOSTS = (
    Field(
        "hosts",
        "Own hosts, one a line",
        "lines",
        hint="shop.example\nwww.shop.example",
        help="A referrer of one of them is internal. The host of the line itself always is.",
    ),
)


def summary(fields: Sequence[Field], values: Mapping[str, Any]) -> str:
    """The set values in one line, without secrets."""
    parts = []
    for each in fields:
        value = values.get(each.name)
        if value in (None, "", [], False) or each.kind == "secret":
            continue
        parts.append(each.name if value is True else f"{each.name} {_text(value)}")
    return "; ".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
