"""The choice of a funnel: a declared one, or steps that are typed on the page; the address keeps it."""

from __future__ import annotations

import json

import streamlit as st

from tidemark.errors import SettingError
from tidemark.figures import conditions
from tidemark.figures.declared import FEWEST_STEPS, GOAL, MOST_STEPS, Declared, Definition
from tidemark.figures.reader import Reader, ReadError
from tidemark.figures.text import clipped, duration, plain, shown

from .. import data
from ..filters import Filters
from . import actions
from .suggested import suggested_pages

OWN = "Steps typed here"
SCOPES = {"Visitors": "visitor", "Sessions": "session"}
WITHIN = ("30m", "1h", "24h", "7d", "30d")
SUGGESTED = 50
EXAMPLE = """[funnels.signup]
steps = ["/", "/pricing*", "goal:signup"]
scope = "visitor"                     # or "session"
within = "24h"

[goals.signup]
path = "/welcome*"
"""


def choose(reader: Reader, filters: Filters) -> Definition | None:
    """Draws the choice, and says what the chosen funnel counts; None where nothing can be counted yet."""
    known = _declared(reader)
    with st.container(horizontal=True, vertical_alignment="bottom", key="choose-funnel"):
        options = [*sorted(known.of("funnels")), OWN]
        name = st.selectbox("Funnel", options, key="funnel", bind="query-params", width=210)
        if name == OWN:
            st.multiselect(
                "Steps",
                list(dict.fromkeys((*st.session_state.get("step", ()), *_suggested(reader, filters, known)))),
                key="step",
                bind="query-params",
                accept_new_options=True,
                max_selections=MOST_STEPS,
                placeholder="Choose, or type such as /docs*",
                width=420,
                help=f"{FEWEST_STEPS} to {MOST_STEPS} steps in order: paths (an asterisk stands for any characters)"
                " or goals.",
            )
            st.segmented_control(
                "Of", list(SCOPES), key="scope", default="Visitors", bind="query-params", required=True
            )
            if st.session_state.get("scope") != "Sessions":
                st.selectbox(
                    "Within", WITHIN, index=WITHIN.index("24h"), key="within", bind="query-params", width=100
                )
    if name == OWN and len(st.session_state.get("step") or ()) < FEWEST_STEPS:
        _explain(has_any=bool(known.of("funnels")))
        return None
    try:
        definition = _chosen_definition(known)
    except SettingError as error:
        st.warning(plain(f"{error}."), icon=":material/error:")
        return None
    single = [f for f in filters.conditions if f.field not in conditions.OF_VISITOR | {"entry_page"}]
    hint = (
        " Filters keep single pageviews, so every step has to pass them."
        if definition.visitor and single
        else ""
    )
    st.caption(_summary(definition) + hint)
    if name == OWN:
        with st.expander("Keep this funnel"):
            st.caption("On the page Definitions, or by this in tidemark\\.toml in the home, under any name:")
            st.code(_as_toml(definition, list(st.session_state["step"])), language=None)
            _define()
    return definition


def _declared(reader: Reader) -> Declared:
    try:
        return data.declared(reader)
    except ReadError as error:
        st.warning(plain(str(error)), icon=":material/error:")
        return Declared()


def _suggested(reader: Reader, filters: Filters, known: Declared) -> list[str]:
    """Goals that are pages, and the pages that are viewed most."""
    goals = [f"{GOAL}{name}" for name, goal in sorted(known.goals.items()) if goal.path]
    return [*goals, *suggested_pages(reader, filters, SUGGESTED)]


def chosen(reader: Reader) -> Definition:
    """The funnel that is chosen on the page."""
    return _chosen_definition(_declared(reader))


def _chosen_definition(known: Declared) -> Definition:
    """The funnel that is chosen on the page. Raises SettingError."""
    state = st.session_state
    name = state.get("funnel")
    if name in known.of("funnels"):
        return known.funnel(str(name))
    scope = SCOPES.get(str(state.get("scope")), "visitor")
    return known.built(state.get("step") or [], scope, str(state.get("within") or "24h"))


def _summary(definition: Definition) -> str:
    steps = " → ".join(
        step.name if step.name == step.pattern else f"{step.name} ({step.pattern})"
        for step in definition.steps
    )
    who = "Visitors" if definition.visitor else "Sessions"
    hours = definition.within.total_seconds() / 3600
    time = "24 h" if hours == 24 else duration(hours * 3600)
    within = f", all within {time} of the first" if definition.visitor else ""
    return plain(f"{who} that viewed {clipped(shown(steps), 300)}{within}.")


def _explain(*, has_any: bool) -> None:
    with st.container(border=True, key="explain-funnels"):
        st.markdown("##### A funnel counts who takes a number of steps in order")
        st.markdown(
            f"Choose {FEWEST_STEPS} to {MOST_STEPS} steps above. A step is a path, in which an asterisk stands for any"
            " characters, or a goal that is a page. Anything may lie between two steps."
        )
        if has_any:
            return
        st.markdown(
            "To keep a funnel, declare it on the page Definitions, or in `tidemark.toml` in the home:"
        )
        st.code(EXAMPLE, language=None)
        _define()


def _define() -> None:
    st.button(
        "Declare a funnel",
        key="funnels-define",
        type="tertiary",
        icon=":material/tune:",
        on_click=_to_definitions,
    )


def _to_definitions() -> None:
    st.session_state["definitions"] = "Funnels"
    actions.go("definitions")


def _as_toml(definition: Definition, texts: list[str]) -> str:
    quoted = ", ".join(json.dumps(text, ensure_ascii=False) for text in texts)
    scope = "visitor" if definition.visitor else "session"
    within = f'within = "{st.session_state.get("within") or "24h"}"\n' if definition.visitor else ""
    return f'[funnels.my-funnel]\nsteps = [{quoted}]\nscope = "{scope}"\n{within}'
