"""The link: read when a session begins and at Back and Forward, and kept in the address.

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
from dashboard.sentence_rule import Sentence
from dashboard.server import settings
from dashboard.settings import Setting, from_text, read_text, record
from dashboard.settings.field_text import nearest, quoted_text, snap
from dashboard.text import listed
from posenc import fields
from posenc.fields import written
from posenc.schemes.sizes import own_defaults, own_rules

Options = TypeVar("Options")

RULES = fields.rules(Setting) | own_rules()
DEFAULTS = fields.defaults(Setting) | own_defaults()
MOST_NAMED = 8  # parameters that are ignored


@dataclass(frozen=True)
class ParsedLink:
    """The shared controls of a link: a setting, a pinned one, and the names of what was left out."""

    setting: Setting
    pinned: str
    ignored: tuple[str, ...]


def parse(query: Mapping[str, Sequence[str]]) -> ParsedLink:
    """Return what an address says of shared controls, given as the texts of each name.

    An illegal value is left out, and one that does not go with the others.
    """
    raw = {
        name: _joined(RULES[name], texts)
        for name, texts in query.items()
        if name in RULES and texts
    }
    setting, left_out = read_text(raw)
    pinned, lost = pin.legal_token(query.get(pin.KEY, [""])[-1])
    return ParsedLink(setting, pinned, (*left_out, *lost))


def parse_options(
    query: Mapping[str, Sequence[str]], owner: type
) -> tuple[dict[str, Any], list[str]]:
    """Return the options of one class that an address has, and the names of illegal ones, left out.

    A sentence that is too long is cut, as where it is typed.
    """
    values, left_out = fields.defaults(owner), []
    for name, rule in linked_rules(owner).items():
        if query.get(name):
            text = _joined(rule, query[name])
            found, notices = snap(owner, {name: text})
            if not notices or (isinstance(rule, Sentence) and nearest(rule, text) is not None):
                values[name] = found[name]
            else:
                left_out.append(name)
    return values, left_out


def keep() -> None:
    """Keep address and session in step. Before a page is chosen: its address then has it all.

    Later, the browser would remember a page without its controls first, and Back would stop there.
    """
    if "link_notices" not in st.session_state:
        return
    if is_back():  # the address counts
        link = parse(_query())
        st.session_state["link_notices"] += ignored(link.ignored)
        set_state(record(link.setting))
        st.session_state[pin.KEY] = link.pinned
    write(read_setting()[0])


def restore(owners: Callable[[], Sequence[type]]) -> None:
    """Read the shared controls of the link, once per session; keep for the page what is left out.

    owners: returns the classes of all other parameters that a link may have.
    """
    if "link_notices" in st.session_state:
        return
    query = _query()
    link, others = parse(query), query.keys() - {*RULES, pin.KEY}
    left_out = {*link.ignored}
    if others:
        for owner in owners():
            left_out.update(parse_options(query, owner)[1])
            others -= linked_rules(owner).keys()
    st.session_state["link_notices"] = ignored(left_out | others)
    st.session_state[pin.KEY] = link.pinned
    values = record(link.setting)
    set_state({name: value for name, value in values.items() if name not in st.session_state})
    write(read_setting()[0])


def ignored(names: Collection[str]) -> list[str]:
    """Return the one notice that names what is left out of a link, the first of many; none for nothing."""
    if not names:
        return []
    shown = [quoted_text(name) for name in sorted(names)[:MOST_NAMED]]
    more = len(names) - len(shown)
    return [f"Ignored in this link: {listed([*shown, *([f'{more:,} more'] if more else [])])}."]


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
    """Take one page's illegal options out of the link, when the page is first drawn in a session."""
    read: set[type] = st.session_state.setdefault("options_read", set())
    if owner in read:
        return
    read.add(owner)
    query, rules = _query(), linked_rules(owner)
    values, left_out = parse_options(query, owner)
    for name, rule in rules.items():
        if isinstance(rule, Sentence) and query.get(name) and name not in left_out:
            cut = snap(owner, {name: _joined(rule, query[name])})[1]  # none where it is whole
            st.session_state["link_notices"] += cut
    # Streamlit reads the words that people read.
    wanted = {
        name: _words(rules[name], values[name], labelled=True)
        for name in rules
        if query.get(name) and name not in left_out
    }
    changed = {name: words for name, words in wanted.items() if words != query[name]}
    if changed or left_out:  # run again: a widget is drawn from the address as it was at first
        for name in left_out:
            del st.query_params[name]
        st.query_params.update(changed)
        st.rerun()


def options(owner: type[Options]) -> Options:
    """Return a page's options before their controls are drawn: what those hold, else what the link says."""
    read_options(owner)
    return held(owner)


def held(owner: type[Options]) -> Options:
    """Return a page's options as `options` does, and leave illegal ones in the link."""
    values, _ = parse_options(_query(), owner)
    back = is_back()  # the controls still hold what was left
    for name, rule in fields.rules(owner).items():
        chosen = st.session_state.get(name)
        value = None if chosen is None else nearest(rule, widget_text(rule, chosen))
        if value is not None and not (back and name in st.query_params):
            values[name] = value
    return owner(**values)


def linked_rules(owner: type) -> dict[str, fields.Rule]:
    """Return the rules of the options that a link may hold: all but those in UNLINKED of their class."""
    unlinked = vars(owner).get("UNLINKED", ())
    return {name: rule for name, rule in fields.rules(owner).items() if name not in unlinked}


def is_back() -> bool:
    """Whether this run answers Back or Forward."""
    run = get_script_run_ctx()
    return run is not None and run.is_history_navigation


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
        for name, rule in linked_rules(owner).items():
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
    return [written(value)]
