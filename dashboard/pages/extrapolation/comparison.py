"""Which trained models the measured view compares: the link holds a name, the control its title."""

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import run_descriptions
from dashboard.controls import link
from dashboard.pages.extrapolation.options import MeasuredChoice
from dashboard.server.incidents import show_callback_errors
from dashboard.text import plain
from posenc import fields
from posenc.lab.runs import RunInfo

NAME, CONTROL = "comparison", "comparison_control"
FEW = 6  # comparisons that stand side by side; more are a list to choose from


def titles(comparisons: Mapping[str, list[RunInfo]]) -> dict[str, str]:
    """Return the title of every comparison; equal ones end with the end of their name."""
    names = {
        name: run_descriptions.title(infos[0].specification) for name, infos in comparisons.items()
    }
    shown = [*names.values()]
    return {
        name: f"{title}, {name[-8:]}" if shown.count(title) > 1 else title
        for name, title in names.items()
    }


def choose(place: DeltaGenerator, comparisons: Mapping[str, list[RunInfo]], default: str) -> str:
    """Draw the choice of a comparison and return its name. default: without one in the link."""
    st.session_state["owners"].append(MeasuredChoice)
    link.read_options(MeasuredChoice)
    labels = titles(comparisons)
    options = [*labels] if default in labels else [default, *labels]
    name = st.query_params.get(NAME, default)
    if name not in options:
        st.warning(
            f"Comparison {plain(name)} is not on this server; {plain(default)} is shown instead.",
            icon=":material/info:",
        )
        name = default
    _write(name, default)
    st.session_state[CONTROL] = name
    rule = fields.rules(MeasuredChoice)[NAME]
    look: dict[str, Any] = {
        "key": CONTROL,
        "format_func": lambda option: labels.get(option, option),
        "help": rule.help,
        "on_change": _take,
        "args": (default,),
    }
    if len(options) > FEW:
        place.selectbox(rule.label, options, width=320, **look)
    else:
        place.segmented_control(rule.label, options, required=True, wrap=True, **look)
    return name


@show_callback_errors
def _take(default: str) -> None:
    _write(st.session_state[CONTROL], default)


def _write(name: str, default: str) -> None:
    """Put the comparison into the session and, where it is not the default, into the address."""
    st.session_state[NAME] = name
    if name == default:
        st.query_params.pop(NAME, None)
    elif st.query_params.get(NAME) != name:
        st.query_params[NAME] = name
