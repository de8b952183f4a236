"""The link: read once per session, made legal, kept in step with the session, written out in full.

Shared controls live in the session, drawn or not, and the address names those that are not at their
default. Controls of one page are bound to the address by Streamlit; what it forgets of them on the way
from page to page is put back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from dashboard.controls import page_controls, pin
from dashboard.controls.page_options import PAGE_CHOICES
from dashboard.controls.widgets import labels
from posenc import fields
from posenc.settings import Setting, from_text, own_defaults, own_rules, record


def keep() -> None:
    """Keep address and session in step. Before a page is chosen: its address then has it all.

    Later, the browser would remember a page without its controls first, and Back would stop there.
    """
    if "link_read" not in st.session_state:
        return
    run = get_script_run_ctx()
    if run is not None and run.is_history_navigation:  # Back and Forward: the address counts
        rules = _shared_rules()
        raw = {
            name: _said(rule, st.query_params.get_all(name))
            for name, rule in rules.items()
            if name in st.query_params
        }
        setting, notices = from_text(raw)
        hold(record(setting))
        st.session_state["link_notices"] += notices
        st.session_state[pin.KEY] = pin.normal(st.query_params.get(pin.KEY, ""))[0]
    elif pin.word() and pin.KEY not in st.query_params:
        st.query_params[pin.KEY] = pin.word()
    write()


def hold(values: Mapping[str, Any]) -> None:
    """Put shared values into the session as widgets hold them: several words as a list."""
    rules = _shared_rules()
    for name, value in values.items():
        several = isinstance(rules[name], fields.MultiChoice)
        st.session_state[name] = list(value) if several else value


def write() -> None:
    """Make the address say what the session holds: every shared control not at its default."""
    rules, default = _shared_rules(), fields.defaults(Setting) | own_defaults()
    wanted = {}
    for name, rule in rules.items():
        value = st.session_state[name]
        if value == default[name]:  # most are
            continue
        texts = _link(rule, value)
        if texts and texts != _link(rule, default[name]):
            wanted[name] = texts
    for name in {*st.query_params} & rules.keys() - wanted.keys():
        del st.query_params[name]
    changed: dict[str, Any] = {
        name: texts[0] if len(texts) == 1 else texts
        for name, texts in wanted.items()
        if st.query_params.get_all(name) != texts
    }
    if changed:
        st.query_params.update(changed)


def restore() -> None:
    """Make the link legal, once per session; keep what was changed to be told on the page."""
    if "link_read" in st.session_state:
        return
    st.session_state["link_read"] = True
    st.session_state["link_notices"] = []
    asked = {name: st.query_params.get_all(name) for name in st.query_params}
    found = meant(asked)
    st.session_state[pin.KEY] = found.pinned
    st.session_state["link_notices"] = [*found.notices]
    values = record(found.setting)
    hold({name: value for name, value in values.items() if name not in st.session_state})
    # Of widgets that are bound to the address: they take what it says when they are first drawn.
    rewritten = {
        name: text
        for name, rule in _page_rules().items()
        if name in asked and (text := _link(rule, found.choices[name])) != asked[name]
    }
    if found.pinned != st.query_params.get(pin.KEY, ""):
        rewritten[pin.KEY] = [found.pinned]
    if rewritten:
        for name, text in rewritten.items():
            st.query_params[name] = text
        write()
        st.rerun()


def turn_to(path: str) -> None:
    """Say which page this run draws; one that was just turned to takes up its choices again."""
    st.session_state["arrived"] = st.session_state.get("page") not in (None, path)
    st.session_state["page"] = path
    st.session_state["owners"] = []


def take_up(owner: type) -> None:
    """Put a page's choices back into the address as they were when the page was left.

    Streamlit takes them out of it, and on the browser's Back it believes the address alone. What the
    address says on arrival counts more.
    """
    kept = st.session_state.setdefault("kept_choices", {})
    default = fields.defaults(owner)
    missing = {
        name: _link(rule, kept[name])
        for name, rule in fields.rules(owner).items()
        if kept.get(name, default[name]) != default[name] and name not in st.query_params
    }
    if st.session_state.get("arrived") and missing:
        for name, texts in missing.items():
            st.query_params[name] = texts
        st.rerun()


def written(setting: Setting) -> dict[str, list[str]]:
    """Return what a link says of every control of the page that is shown, drawn or not.

    A scheme that the page does not show has no say in it: its own fields are left out where they are the
    defaults, because some forty of them would make a link that messages cut off.
    """
    values = record(setting)
    usual, shown = own_defaults(), page_controls.here(setting)
    rules = {
        name: rule
        for name, rule in _shared_rules().items()
        if name not in usual
        or name in shown
        or name.split(".")[0] in setting.schemes
        or values.get(name) != usual[name]
    }
    for owner in st.session_state.get("owners", ()):
        chosen = fields.rules(owner)
        rules |= chosen
        values |= {
            name: st.session_state[name]
            for name in chosen
            if st.session_state.get(name) is not None  # an empty field stands for its default
        }
    return {name: _link(rule, values[name]) for name, rule in rules.items() if name in values}


@dataclass(frozen=True)
class Meant:
    """What an address means: a legal setting, every page's choices, the pinned word, what was changed."""

    setting: Setting
    choices: dict[str, Any]
    pinned: str
    notices: tuple[str, ...]


def meant(said: Mapping[str, Sequence[str]]) -> Meant:
    """Return the legal setting and choices nearest to an address, given as the texts of each name."""
    rules = _shared_rules() | _page_rules()
    raw = {name: _said(rules.get(name), texts) for name, texts in said.items() if texts}
    setting, notices = from_text(raw)
    choices: dict[str, Any] = {}
    for owner in PAGE_CHOICES:
        snapped, changed = fields.snap(owner, raw)
        choices |= snapped
        notices += changed
    word, changed = pin.normal(raw.get(pin.KEY, ""))
    return Meant(setting, choices, word, (*notices, *changed))


def address(found: Meant) -> dict[str, list[str]]:
    """Return the address that says all of it, defaults too; `meant` reads it back."""
    values = record(found.setting) | found.choices
    rules = _shared_rules() | _page_rules()
    texts = {name: _link(rule, values[name]) for name, rule in rules.items()}
    return texts | ({pin.KEY: [found.pinned]} if found.pinned else {})


def _page_rules() -> dict[str, fields.Rule]:
    found: dict[str, fields.Rule] = {}
    for owner in PAGE_CHOICES:
        found |= fields.rules(owner)
    return found


def _shared_rules() -> dict[str, fields.Rule]:
    return fields.rules(Setting) | own_rules()


def _said(rule: fields.Rule | None, texts: Sequence[str]) -> str:
    """Return what a link says of one name: of a name said twice the last, of several words all."""
    return ",".join(texts) if isinstance(rule, fields.MultiChoice) else texts[-1]


def _link(rule: fields.Rule, value: Any) -> list[str]:
    """Return how a value stands in a link: several words apart, by their labels."""
    if isinstance(rule, fields.MultiChoice):
        named = labels(rule)
        return [named[word] for word in value]
    return [rule.write(value)]
