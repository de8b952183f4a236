"""Ruled fields become widgets, widgets become a Setting; every one of them lives in the link.

A session starts from its link: `restore_link` reads it once, makes it legal and rewrites it before
any widget exists. From then on the browser keeps the link in step with the bound widgets.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import compute, sources
from dashboard.choices import PAGE_CHOICES
from dashboard.text import plain
from posenc import Setting, fields
from posenc.schemes import SCHEMES
from posenc.setting import own_defaults, own_rules

Owner = TypeVar("Owner")

DIALS = ("dim", "base", "length", "train_length")  # shown as sliders, exact values underneath


def restore_link() -> None:
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
    if setting.learned_source not in sources.available():
        notices.append(sources.missing(setting.learned_source))
        setting = setting.replace(learned_source=sources.DEFAULT)
    values = {name: getattr(setting, name) for name in fields.rules(Setting)}
    values |= own_defaults() | dict(setting.own)
    for owner in PAGE_CHOICES:
        snapped, changed = fields.snap(owner, raw)
        values |= snapped
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
    if rewritten:
        for name, text in rewritten.items():
            st.query_params[name] = text
        st.rerun()


def sidebar() -> Setting:
    """Draw the shared controls and return the what-if they mean, always a legal one."""
    rules, default = fields.rules(Setting), fields.defaults(Setting)
    with st.sidebar:
        widget(st.sidebar, "schemes", rules["schemes"], default["schemes"])
        dials = st.container()
        widget(st.sidebar, "equal_width", rules["equal_width"], default["equal_width"])
        sources.picker(rules["learned_source"])
        with st.expander("Exact values"):
            for name in DIALS:
                widget(st, name, rules[name], default[name])
        # After the numbers they follow: a link may have changed those without any callback.
        for name in DIALS:
            _dial(dials, name, rules[name])
        with st.expander("More"):
            for name in ("heads", "alibi_head", "seed", "precision", "device"):
                widget(st, name, rules[name], default[name])
            for name, rule in own_rules().items():
                widget(st, name, rule, own_defaults()[name])
    raw = {name: rule.write(st.session_state[name]) for name, rule in (rules | own_rules()).items()}
    setting, notices = Setting.snap(raw)
    used = compute.device(setting.device)
    if setting.device not in ("auto", used):
        notices.append(f"No working {setting.device} device is here; {used} is used instead.")
    st.sidebar.caption(f"Position kernels computed on {compute.device_label(used)}.")
    tell(notices)
    return setting


def choices(
    owner: type[Owner], place: DeltaGenerator | None = None, words: Sequence[str] = ()
) -> Owner:
    """Draw the controls of one page in a row and return what was chosen.

    words: what a field of free words can be right now.
    """
    target = place or st.container(horizontal=True, vertical_alignment="top")
    values = {}
    for name, rule in fields.rules(owner).items():
        default = fields.defaults(owner)[name]
        if isinstance(rule, fields.Word):
            values[name] = _one_of(target, name, rule, default, words)
        else:
            values[name] = widget(target, name, rule, default)
    return owner(**values)


def _one_of(place: Any, name: str, rule: fields.Word, default: str, words: Sequence[str]) -> str:
    """Draw the choice of a word among those there are; a link's word that is gone is told."""
    options = [*words] if default in words else [default, *words]
    # Before the widget is first drawn, what the link says is in the link alone.
    asked = st.session_state.get(name, st.query_params.get(name, default))
    if asked not in options:
        st.warning(
            f"{rule.label} {plain(asked)} is not on this server; {plain(default)} is shown instead.",
            icon=":material/info:",
        )
        if name in st.session_state:
            st.session_state[name] = default
    chosen: str = place.selectbox(
        rule.label,
        options,
        options.index(default),
        key=name,
        help=rule.help or None,
        bind="query-params",
        width=320,
    )
    return chosen


def tell(notices: list[str]) -> None:
    """Show what had to be changed in the link or among the controls, in plain sentences."""
    told = [*dict.fromkeys([*st.session_state.get("link_notices", ()), *notices])]
    if len(told) == 1:
        st.warning(plain(told[0]), icon=":material/info:")
    elif told:
        lines = [f"{len(told)} things were changed:", *(f"- {plain(notice)}" for notice in told)]
        st.warning("\n".join(lines), icon=":material/info:")
    st.session_state["link_notices"] = []


def widget(place: Any, name: str, rule: fields.Rule, default: Any) -> Any:
    """Draw the widget of one ruled field, bound to the link under the field's name."""
    common: dict[str, Any] = {"key": name, "help": rule.help or None, "bind": "query-params"}
    match rule:
        case fields.Several():
            return place.pills(
                rule.label,
                rule.options,
                selection_mode="multi",
                default=list(default),
                format_func=scheme_label,
                **common,
            )
        case fields.Choice():
            return place.segmented_control(
                rule.label, rule.options, default=default, required=True, wrap=True, **common
            )
        case fields.Flag():
            return place.toggle(rule.label, default, **common)
        case fields.Whole(grid=()) if rule.high - rule.low <= 64:
            return place.slider(
                rule.label, rule.low, rule.high, default, rule.multiple_of, width=240, **common
            )
        case fields.Whole():
            return place.number_input(
                rule.label,
                rule.low,
                rule.high,
                default,
                rule.multiple_of,
                **common,
            )
        case fields.Real():
            return place.number_input(
                rule.label,
                rule.low,
                rule.high,
                default,
                step=None if rule.grid else rule.high / 4,
                format="%.10g",
                **common,
            )
    raise TypeError(f"no widget is known for {type(rule).__name__}")


def _said(rule: fields.Rule | None, texts: list[str]) -> str:
    """Return what a link says of one name: of a name said twice the last, of several words all."""
    return ",".join(texts) if isinstance(rule, fields.Several) else texts[-1]


def _link(rule: fields.Rule, value: Any) -> list[str]:
    """Return how a widget writes its value into the link: several words apart, by their labels."""
    if isinstance(rule, fields.Several):
        named = dict(zip(rule.options, rule.labels, strict=True))
        return [named[word] for word in value]
    return [rule.write(value)]


def scheme_label(kind: str) -> str:
    """Return the name of a scheme as people know it."""
    return SCHEMES[kind].label


def _dial(place: DeltaGenerator, name: str, rule: fields.Rule) -> None:
    """A slider over the usual values of a number; the exact number is the field itself."""
    assert isinstance(rule, fields.Whole | fields.Real)
    key = f"{name}_dial"
    exact = st.session_state[name]
    nearest = _nearest_stop(rule, exact)
    label = rule.label if exact == nearest else f"{rule.label}, exactly {exact:,.10g}"
    # Only where they differ: telling the browser what it just sent makes a held key stutter.
    if st.session_state.get(key) != nearest:
        st.session_state[key] = nearest
    place.select_slider(
        label,
        rule.grid,
        key=key,
        help=rule.help,
        format_func=lambda value: f"{value:,.10g}",
        on_change=_take_dial,
        args=(name,),
    )


def _take_dial(name: str) -> None:
    st.session_state[name] = st.session_state[f"{name}_dial"]


def _nearest_stop(rule: fields.Whole | fields.Real, value: float) -> float:
    """Return the slider's stop nearest to a value, by ratio."""
    return min(rule.grid, key=lambda stop: max(stop, value) / min(stop, value))
