"""Which trained models the measured view compares: the link holds a name, the control its words."""

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.compute import run_descriptions
from dashboard.controls import link
from dashboard.pages.extrapolation.options import MeasuredChoice
from dashboard.server.incidents import answered
from dashboard.text import plain
from posenc import fields
from posenc.lab.runs import RunInfo

NAME, CONTROL, IN_LINK = "comparison", "comparison_control", "comparison_in_link"
FEW = 6  # comparisons that stand side by side; more are a list to choose from


def asked(default: str) -> str:
    """Return the comparison that the session or, where it has changed, the link names."""
    in_link = st.query_params.get(NAME, default)
    if in_link != st.session_state.get(IN_LINK):
        st.session_state[NAME] = st.session_state[IN_LINK] = in_link
    name: str = st.session_state.setdefault(NAME, in_link)
    return name


def titles(every: Mapping[str, list[RunInfo]]) -> dict[str, str]:
    """Return the words of every comparison, no two alike."""
    found = {name: run_descriptions.title(infos[0].specification) for name, infos in every.items()}
    words = [*found.values()]
    return {
        name: f"{text}, {name[-8:]}" if words.count(text) > 1 else text
        for name, text in found.items()
    }


def choose(place: DeltaGenerator, every: Mapping[str, list[RunInfo]], default: str) -> str:
    """Draw the choice of a comparison and return its name. default: without one in the link."""
    st.session_state["owners"].append(MeasuredChoice)
    link.read_options(MeasuredChoice)
    words = titles(every)
    options = [*words] if default in words else [default, *words]
    name = asked(default)
    if name not in options:
        st.warning(
            f"Comparison {plain(name)} is not on this server; {plain(default)} is shown instead.",
            icon=":material/info:",
        )
        name = default
    rule = fields.rules(MeasuredChoice)[NAME]
    st.session_state[NAME] = st.session_state[CONTROL] = name
    common: dict[str, Any] = {
        "key": CONTROL,
        "format_func": lambda option: words.get(option, option),
        "help": rule.help,
        "on_change": _take,
        "args": (default,),
    }
    if len(options) > FEW:
        place.selectbox(rule.label, options, width=320, **common)
    else:
        place.segmented_control(rule.label, options, required=True, wrap=True, **common)
    _write(name, default)
    return name


@answered
def _take(default: str) -> None:
    st.session_state[NAME] = st.session_state[CONTROL]
    _write(st.session_state[NAME], default)


def _write(name: str, default: str) -> None:
    """Put the comparison into the address, where it is not the default."""
    st.session_state[IN_LINK] = name
    if name == default:
        st.query_params.pop(NAME, None)
    elif st.query_params.get(NAME) != name:
        st.query_params[NAME] = name
