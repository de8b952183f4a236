"""The link: read once per session, made legal and rewritten; written out in full to be copied.

From then on the browser keeps it in step with the bound widgets, and what the browser forgets on the
way from page to page is put back.
"""

from typing import Any

import streamlit as st

from dashboard import pinned
from dashboard.choices import PAGE_CHOICES
from posenc import Setting, fields
from posenc.setting import own_rules


def restore() -> None:
    """Make the link legal, once per session; keep what was changed to be told on the page."""
    if "link_read" in st.session_state:
        return
    st.session_state["link_read"] = True
    st.session_state["link_notices"] = []
    rules = fields.rules(Setting) | own_rules()
    for owner in PAGE_CHOICES:
        rules |= fields.rules(owner)
    raw = {name: _said(rules.get(name), st.query_params.get_all(name)) for name in st.query_params}
    setting, notices = Setting.snap(raw)
    values = setting.record()
    for owner in PAGE_CHOICES:
        snapped, changed = fields.snap(owner, raw)
        values |= snapped
        notices += changed
    word = st.query_params.get(pinned.KEY, "")
    normal, changed = pinned.normal(word)
    notices += changed
    st.session_state["link_notices"] = notices
    # Also what the link did not name but changed: heads, where its dimension leaves room for fewer.
    changed_too = {
        name
        for name, default in fields.defaults(Setting).items()
        if name not in raw and values[name] != default
    }
    rewritten = {
        name: text
        for name in (*raw, *sorted(changed_too))
        if name in rules
        and (text := _link(rules[name], values[name])) != st.query_params.get_all(name)
    }
    st.session_state[pinned.KEY] = normal
    if normal != word:
        rewritten[pinned.KEY] = [normal]
    if rewritten:
        for name, text in rewritten.items():
            st.query_params[name] = text
        st.rerun()


def turn_to(path: str) -> None:
    """Say which page this run draws; one that was just turned to takes up its choices again."""
    st.session_state["arrived"] = st.session_state.get("page") not in (None, path)
    st.session_state["page"] = path
    st.session_state["owners"] = []
    pinned.take_up()


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
    """Return what a link says of every control on the page that is shown, defaults too."""
    values = setting.record()
    rules: dict[str, fields.Rule] = fields.rules(Setting) | own_rules()
    for owner in st.session_state.get("owners", ()):
        chosen = fields.rules(owner)
        rules |= chosen
        values |= {name: st.session_state[name] for name in chosen if name in st.session_state}
    return {name: _link(rule, values[name]) for name, rule in rules.items() if name in values}


def _said(rule: fields.Rule | None, texts: list[str]) -> str:
    """Return what a link says of one name: of a name said twice the last, of several words all."""
    return ",".join(texts) if isinstance(rule, fields.Several) else texts[-1]


def _link(rule: fields.Rule, value: Any) -> list[str]:
    """Return how a widget writes its value into the link: several words apart, by their labels."""
    if isinstance(rule, fields.Several):
        named = dict(zip(rule.options, rule.labels, strict=True))
        return [named[word] for word in value]
    return [rule.write(value)]
