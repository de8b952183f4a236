"""Which shared controls a page uses: what neither it nor a chosen scheme uses is not drawn.

A page says so by its `used_controls`. A control that is not drawn keeps its value, which stays in the link.
"""

from collections.abc import Callable

import streamlit as st

from dashboard.blocks import SHOWN as SHOWN
from dashboard.blocks import Uses
from dashboard.settings import Setting
from posenc import fields
from posenc.schemes.sizes import own_rules

UsedControls = Uses  # the name by which pages that draw themselves know it


def note(used: UsedControls | Callable[[], UsedControls]) -> None:
    """Remember what the page of this run uses. used: a function where that depends on its options."""
    st.session_state["used_controls"] = used() if callable(used) else used


def option(name: str, default: str) -> str:
    """Return an option of the page before it is drawn: what its widget or the link holds."""
    value: str = st.session_state.get(name, st.query_params.get(name, default))
    return value


def controls(used: UsedControls, setting: Setting) -> frozenset[str]:
    """Return the names of the controls, own fields of schemes too, that change what a page shows."""
    names = {*used.itself}
    if used.schemes:
        names.add("model")
        for kind in setting.schemes:
            names |= of_scheme(setting, kind)
    return frozenset(fields.rules(Setting) | own_rules()) & (names - {*used.never})


def of_scheme(setting: Setting, kind: str) -> set[str]:
    """Return the names of the controls that change what one scheme does."""
    config = setting.config(kind)
    if setting.of_model(kind) is not None:
        names_used = {"alibi_head"} if "heads" in fields.rules(config) else set()
        if "learned_source" in config.sizes_used:
            names_used |= {"learned_source", "seed"}
        if (
            "source" in config.own_rules()
        ):  # a start by seed, or a run's numbers instead of the model's
            names_used |= {"seed", f"{kind}.source"}
        return names_used | {"precision"}
    names = {*config.uses}
    if setting.equal_width and "equal_width" in names:
        names.discard("heads")
    if "heads" in fields.rules(config):
        names.add("alibi_head")
    if "learned_source" in config.sizes_used:
        names.add("learned_source")
    if config.uses:
        names.add("precision")
    return names | {f"{kind}.{name}" for name in config.own_rules()}


def here(setting: Setting) -> frozenset[str]:
    """Return the names of the controls that change what the page of this run shows."""
    return controls(_used(), setting)


def any_here() -> bool:
    """Return whether the page of this run has shared controls at all."""
    return _used().schemes or bool({*_used().itself} - {*_used().drawn})


def drawn_here() -> frozenset[str]:
    """Return the names of the controls that the page of this run draws itself."""
    return frozenset(_used().drawn)


def _used() -> UsedControls:
    used: UsedControls = st.session_state["used_controls"]
    return used
