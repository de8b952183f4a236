"""The link: read when a session begins and at Back and Forward, made legal, and kept in the address.

Shared controls live in the session, drawn or not, and the address names those that are not at their
default. They are not bound by Streamlit: it forgets what a page does not draw at a reload, loses a control
that two pages draw in different places, and would name a model by its label. Options of one page are bound.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from dashboard.controls import pin
from dashboard.controls.widgets import labels, widget_text, widget_value
from dashboard.server import settings
from dashboard.settings import Setting, from_text, record
from dashboard.text import listed
from posenc import fields
from posenc.schemes.sizes import own_defaults, own_rules

Options = TypeVar("Options")

RULES = fields.rules(Setting) | own_rules()
DEFAULTS = fields.defaults(Setting) | own_defaults()
MOST_NAMED = 8  # parameters that are ignored


@dataclass(frozen=True)
class ParsedLink:
    """The shared controls of a link: a legal setting, a pinned setting, and notices of changes."""

    setting: Setting
    pinned: str
    notices: tuple[str, ...]


def parse(query: Mapping[str, Sequence[str]]) -> ParsedLink:
    """Return the legal values nearest to an address, given as the texts of each name."""
    raw = {name: _joined(RULES.get(name), texts) for name, texts in query.items() if texts}
    setting, notices = from_text(raw)
    pinned, changes = pin.nearest_token(raw.get(pin.KEY, ""))
    return ParsedLink(setting, pinned, (*notices, *changes))


def parse_options(
    query: Mapping[str, Sequence[str]], owner: type
) -> tuple[dict[str, Any], list[str]]:
    """Return the options of one class nearest to an address, and notices of changes."""
    rules = fields.rules(owner).items()
    raw = {name: _joined(rule, query[name]) for name, rule in rules if query.get(name)}
    return fields.snap(owner, raw)


def keep() -> None:
    """Keep address and session in step. Before a page is chosen: its address then has it all.

    Later, the browser would remember a page without its controls first, and Back would stop there.
    """
    if "link_notices" not in st.session_state:
        return
    run = get_script_run_ctx()
    if run is not None and run.is_history_navigation:  # Back and Forward: the address counts
        link = parse(_query())
        st.session_state["link_notices"] += link.notices
        set_state(record(link.setting))
        st.session_state[pin.KEY] = link.pinned
    write(read_setting()[0])


def restore(known: Callable[[], frozenset[str]]) -> None:
    """Read the shared controls of the link, once per session; keep what was changed for the page.

    known: returns the names of all other parameters that a link may have.
    """
    if "link_notices" in st.session_state:
        return
    link, unknown = parse(_query()), {*st.query_params} - {*RULES, pin.KEY}
    st.session_state["link_notices"] = [*link.notices]
    if unknown and (unknown := unknown - known()):
        st.session_state["link_notices"].append(ignored(unknown))
    st.session_state[pin.KEY] = link.pinned
    values = record(link.setting)
    set_state({name: value for name, value in values.items() if name not in st.session_state})
    write(read_setting()[0])


def ignored(names: Collection[str]) -> str:
    """Return the notice that names what a link has and nothing here reads, the first of many."""
    shown = [fields.quoted_text(name) for name in sorted(names)[:MOST_NAMED]]
    more = len(names) - len(shown)
    return f"Ignored in this link: {listed([*shown, *([f'{more:,} more'] if more else [])])}."


def write(setting: Setting) -> None:
    """Make the address name every shared value that is not at its default, and the pinned setting."""
    texts = {
        name: _words(RULES[name], value)
        for name, value in record(setting).items()
        if value != DEFAULTS[name]
    }
    if token := st.session_state[pin.KEY]:
        texts[pin.KEY] = [token]
    for name in {*st.query_params} & {*RULES, pin.KEY} - texts.keys():
        del st.query_params[name]
    changed = {n: words for n, words in texts.items() if st.query_params.get_all(n) != words}
    if changed:
        st.query_params.update(changed)


def read_options(owner: type) -> None:
    """Make one page's options of the link legal, when the page is first drawn in a session."""
    read: set[type] = st.session_state.setdefault("options_read", set())
    if owner in read:
        return
    read.add(owner)
    query, rules = _query(), fields.rules(owner)
    values, notices = parse_options(query, owner)
    st.session_state["link_notices"] += notices
    # Streamlit reads the words that people read.
    wanted = {
        name: _words(rules[name], values[name], labelled=True) for name in rules if query.get(name)
    }
    changed = {name: words for name, words in wanted.items() if words != query[name]}
    if changed:  # and run again: a widget is drawn from the address as it was when the run began
        st.query_params.update(changed)
        st.rerun()


def options(owner: type[Options]) -> Options:
    """Return a page's options before their controls are drawn: what those hold, else what the link says."""
    read_options(owner)
    values, _ = parse_options(_query(), owner)
    run = get_script_run_ctx()
    back = run is not None and run.is_history_navigation  # the controls still hold what was left
    for name, rule in fields.rules(owner).items():
        chosen = st.session_state.get(name)
        value = None if chosen is None else rule.nearest(widget_text(rule, chosen))
        if value is not None and not (back and name in st.query_params):
            values[name] = value
    return owner(**values)


def _query() -> dict[str, list[str]]:
    return {name: st.query_params.get_all(name) for name in st.query_params}


def set_state(values: Mapping[str, Any]) -> None:
    """Put values of shared controls into the session, as their widgets hold them."""
    for name, value in values.items():
        st.session_state[name] = widget_value(RULES[name], value)


def read_setting() -> tuple[Setting, list[str]]:
    """Return the legal setting nearest to what the controls hold, and what had to be changed."""
    texts = {name: widget_text(rule, st.session_state[name]) for name, rule in RULES.items()}
    setting, notices = from_text(texts)
    setting, capped = settings.within(setting)
    return setting, [*notices, *capped]


def to_query(setting: Setting) -> dict[str, list[str]]:
    """Return what a link says of every control of the page that is shown, defaults too."""
    texts = {name: _words(RULES[name], value) for name, value in pin.named_values(setting).items()}
    for owner in st.session_state["owners"]:
        for name, rule in fields.rules(owner).items():
            value = st.session_state.get(name)
            if value is not None:  # an empty field stands for its default
                texts[name] = _words(rule, value)
    return texts


def _joined(rule: fields.Rule | None, texts: Sequence[str]) -> str:
    """Return the text of a parameter: all texts of several words, else the last text."""
    if isinstance(rule, fields.Choice) and texts[-1] in rule.labels:
        return rule.options[rule.labels.index(texts[-1])]  # Streamlit writes labels: no notice
    return ",".join(texts) if isinstance(rule, fields.MultiChoice) else texts[-1]


def _words(rule: fields.Rule, value: Any, *, labelled: bool = False) -> list[str]:
    """Return how a value stands in a link: several words apart, by their labels.

    labelled: one word by its label, too.
    """
    if isinstance(rule, fields.MultiChoice):
        return [labels(rule)[word] for word in value]
    if labelled and isinstance(rule, fields.Choice):
        return [labels(rule)[value]]
    return [rule.write(value)]
