"""The state of a visitor: kept in the session, changed by callbacks of widgets, told by the address.

It is the only home of what is chosen. A widget shows a value of the state; turned, it replaces the state
before the page is drawn.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from dashboard import state
from dashboard.blocks import Changes
from dashboard.sentence_rule import Sentence, cut
from dashboard.server import incidents, settings, streamlit_parts
from dashboard.settings.field_text import read
from dashboard.state import State
from posenc import fields
from posenc.errors import ConfigError

# Keys of the session that are no widget's begin with "_".
_STATE, _PAGE, _KIND, _NOTICES, _TYPED = "_state", "_page", "_kind", "_notices", "_typed"


def begin(page: str, kind: type) -> tuple[State, str | None]:
    """Return the state for this run of a page, and the query that the browser has to write, if any.

    The state is that of the address where that counts: when a session begins, at Back and Forward, and
    where a link within the app has parameters; the menu leads to an address without any. In no other run:
    a pressed key outruns the address, which would throw its value back.
    The query is that of a page that was just chosen: Streamlit would write it over the address of the page
    before; the browser writes it once the page is there.
    """
    query = {name: st.query_params.get_all(name) for name in st.query_params}
    before: State | None = st.session_state.get(_STATE)
    back = streamlit_parts.is_history_navigation()
    came = page != st.session_state.get(_PAGE) and not back
    st.session_state[_PAGE], st.session_state[_KIND] = page, kind
    if before is None or back or (query and came):
        linked = state.read_query(query, page, kind, before)
        _replace(linked.state)
        tell(linked.notice)
    texts = state.to_query(current(), page, kind)
    if texts != query and not came:
        st.query_params.from_dict(texts)
    return current(), to_address(texts) if came else None


def to_address(texts: Mapping[str, list[str]]) -> str:
    """Return the texts of a link as an address has them."""
    return urlencode(texts, doseq=True, safe=",~")


def current() -> State:
    """Return the state of this visitor."""
    now: State = st.session_state[_STATE]
    return now


def _replace(new: State) -> None:
    """Make a state this visitor's, with no more positions than this server shows."""
    setting, capped = settings.within(new.setting)
    pinned = None if new.pinned is None else settings.within(new.pinned)[0]
    st.session_state[_STATE] = replace(new, setting=setting, pinned=pinned)
    tell(*capped)


def tell(*notices: str) -> None:
    """Let the page of this run say these sentences, but for empty ones."""
    st.session_state[_NOTICES] = [*st.session_state.get(_NOTICES, ()), *filter(None, notices)]


def take_notices() -> list[str]:
    """Return, once, what the page says of a link or a control."""
    told: list[str] = st.session_state.pop(_NOTICES, [])
    return [*dict.fromkeys(told)]


def show(key: str, value: Any) -> None:
    """Make a widget that is about to be drawn show a value.

    Only where they differ: telling the browser what it just sent makes a held key stutter.
    """
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value


# Callbacks of widgets -------------------------------------------------------------------------


def callback(function: Callable[..., None]) -> Callable[..., None]:
    """Decorate what a widget calls before the page is drawn: a fault in it becomes a notice of the page.

    Streamlit would end the run, and the page would be gone.
    """

    @functools.wraps(function)
    def guarded(*arguments: Any) -> None:
        try:
            function(*arguments)
        except incidents.ANY_FAULT as error:
            tell(incidents.sentence(error))

    return guarded


@callback
def change(changes: Changes) -> None:
    """Change fields of the setting, of the page, or of the state; what does not fit is told instead."""
    try:
        changed = current().changed(
            st.session_state[_PAGE],
            st.session_state[_KIND],
            changes() if callable(changes) else changes,
        )
    except ConfigError as error:
        tell(f"Nothing was changed: {state.refusal(error)}")
    else:
        _replace(changed)


@callback
def reset() -> None:
    """Give the setting and the controls of the page their defaults; what no link holds stays."""
    kind = st.session_state[_KIND]
    own = {n: value for n, value in fields.defaults(kind).items() if n not in state.unlinked(kind)}
    change(state.DEFAULTS | own)


@callback
def take(name: str, key: str) -> None:
    """Give a field what its widget holds: a value, several words as a list, or a text."""
    rule, held = rule_of(name), st.session_state[key]
    if isinstance(held, list):
        held = tuple(option for option in vars(rule)["options"] if option in held)
    elif held is None:  # an empty number stands for its default
        held = default_of(name)
    elif isinstance(held, str) and not rule.accepts(held):
        held = _meant(name, rule, held)
    if rule.accepts(held):
        change({name: held})
    elif not isinstance(rule, Sentence):
        tell(f"{rule.label} must be {rule.allowed()}.")


def _meant(name: str, rule: fields.Rule, text: str) -> Any:
    """Return the value that a typed text means. A sentence is cut; what was typed stays in its field."""
    if not isinstance(rule, Sentence):
        return read(rule, text)
    meant = cut(rule, text) or options()[name]
    if not text.strip():  # an empty field shows the sentence that is used
        tell(state.told_cut(rule, meant))
    st.session_state[_TYPED] = st.session_state.get(_TYPED, {}) | {name: (text, meant)}
    return meant


def typed(name: str, value: Any) -> str:
    """Return what was typed for a sentence that is shown cut, "" where it is shown whole."""
    text, meant = st.session_state.get(_TYPED, {}).get(name, ("", None))
    return text if meant == value else ""


def rule_of(name: str) -> fields.Rule:
    """Return the rule of a field of the page at hand, or of the setting."""
    return {**state.RULES, **fields.rules(st.session_state[_KIND])}[name]


def default_of(name: str) -> Any:
    """Return the default of an option of the page at hand."""
    return fields.defaults(st.session_state[_KIND])[name]


def options() -> dict[str, Any]:
    """Return the options of the page at hand by their names."""
    return vars(current().of(st.session_state[_PAGE], st.session_state[_KIND]))


@callback
def pin() -> None:
    """Pin the setting at hand as A."""
    _replace(replace(current(), pinned=current().setting))


@callback
def present(key: str) -> None:
    """Present to a class, or no more, as the toggle of this key says."""
    _replace(replace(current(), presenting=st.session_state[key]))
