"""Ruled fields become widgets, widgets become a Setting; every one of them lives in the link."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import compute, links, sources
from dashboard.text import plain
from posenc import Setting, fields
from posenc.presets import PRESETS
from posenc.schemes import SCHEMES
from posenc.setting import own_defaults, own_rules

Owner = TypeVar("Owner")

DIALS = ("dim", "base", "length", "train_length")  # shown as sliders, exact values underneath


def shared(place: Any) -> Setting:
    """Draw the shared controls and return the what-if they mean, always a legal one.

    place: the sidebar, or what stands for it.
    """
    rules, default = fields.rules(Setting), fields.defaults(Setting)
    with place:
        _quick()
        widget(st, "schemes", rules["schemes"], default["schemes"])
        dials = st.container()
        widget(st, "equal_width", rules["equal_width"], default["equal_width"])
        sources.picker(rules["learned_source"])
        with st.expander("Exact values"):
            for name in DIALS:
                widget(st, name, rules[name], default[name])
        # After the numbers they follow: a link may have changed those without any callback.
        for name in DIALS:
            dial(dials, name, rules[name], key=f"{name}_dial")
        with st.expander("More"):
            for name in ("heads", "alibi_head", "seed", "precision", "device"):
                widget(st, name, rules[name], default[name])
            for name, rule in own_rules().items():
                widget(st, name, rule, own_defaults()[name])
    raw = {
        name: _text(rule, st.session_state[name]) for name, rule in (rules | own_rules()).items()
    }
    setting, notices = Setting.snap(raw)
    used = compute.device(setting.device)
    if setting.device not in ("auto", used):
        notices.append(f"No working {setting.device} device is here; {used} is used instead.")
    place.caption(f"Position kernels computed on {compute.device_label(used)}.")
    tell(notices)
    return setting


def _quick() -> None:
    """Draw what sets many controls at once; before them, because a drawn widget cannot be set."""
    row = st.container(horizontal=True)
    asked = row.menu_button(
        "Presets",
        tuple(PRESETS),
        key="preset",
        format_func=lambda name: f"{PRESETS[name].label} ({SCHEMES[PRESETS[name].scheme].label})",
        icon=":material/tune:",
        help="The numbers of a model that made a scheme known; schemes and the rest stay.",
    )
    if asked is not None:
        st.session_state.update(PRESETS[asked].changes)
        st.caption(plain(f"{PRESETS[asked].label}: {PRESETS[asked].source}."))
    if row.button("Reset", key="reset", icon=":material/restart_alt:"):
        st.session_state.update(_as_held(fields.defaults(Setting) | own_defaults()))


def _text(rule: fields.Rule, held: Any) -> str:
    """Return the text of what a widget holds; that of a list of numbers is text already."""
    return held if isinstance(rule, fields.Numbers) else rule.write(held)


def _as_held(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as widgets hold them: several words as a list, numbers as text."""
    rules = fields.rules(Setting) | own_rules()
    held = {}
    for name, value in values.items():
        rule = rules.get(name)
        numbers = isinstance(rule, fields.Numbers)
        held[name] = rule.write(value) if numbers and rule is not None else value
        if isinstance(rule, fields.Several):
            held[name] = list(value)
    return held


def choices(
    owner: type[Owner],
    place: DeltaGenerator | Mapping[str, DeltaGenerator] | None = None,
    words: Sequence[str] = (),
) -> Owner:
    """Draw the controls of one page in a row, or each in its own place, and return what was chosen.

    words: what a field of free words can be right now.
    """
    row = None if isinstance(place, Mapping) else place
    if place is None:
        row = st.container(horizontal=True, vertical_alignment="top")
    values = {}
    st.session_state.setdefault("owners", []).append(owner)
    links.take_up(owner)
    for name, rule in fields.rules(owner).items():
        default = fields.defaults(owner)[name]
        target = place[name] if isinstance(place, Mapping) else row
        assert target is not None
        if isinstance(rule, fields.Word):
            values[name] = _one_of(target, name, rule, default, words)
        elif isinstance(rule, fields.Sentence):
            values[name] = _sentence(target, name, rule, default)
        else:
            chosen = widget(target, name, rule, default)
            if isinstance(rule, fields.Several):  # of nothing at all, or too much, the nearest
                chosen = rule.nearest(",".join(chosen)) or default
            values[name] = chosen
    st.session_state.setdefault("kept_choices", {}).update(values)
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


def _sentence(place: Any, name: str, rule: fields.Sentence, default: str) -> str:
    """Draw a line of text; what cannot be used of it is told, and the text itself stays."""
    typed = place.text_input(
        rule.label,
        default,
        key=name,
        help=rule.help or None,
        bind="query-params",
        max_chars=rule.longest,
        width=280,
    )
    nearest = rule.nearest(typed)
    found: str = default if nearest is None else nearest
    if found != typed:
        st.warning(
            f"{rule.label} must be {rule.allowed()}; {plain(rule.told(found))} is used instead.",
            icon=":material/info:",
        )
    return found


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
                format_func=dict(zip(rule.options, rule.labels, strict=True)).__getitem__,
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
        case fields.Numbers():
            return place.text_input(rule.label, rule.write(default), **common)
    raise TypeError(f"no widget is known for {type(rule).__name__}")


def dial(place: Any, name: str, rule: fields.Rule, *, key: str, **layout: Any) -> None:
    """A slider over the usual values of a shared number; the exact number is the field itself."""
    assert isinstance(rule, fields.Whole | fields.Real)
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
        args=(name, key),
        **layout,
    )


def _take_dial(name: str, key: str) -> None:
    st.session_state[name] = st.session_state[key]


def _nearest_stop(rule: fields.Whole | fields.Real, value: float) -> float:
    """Return the slider's stop nearest to a value, by ratio."""
    return min(rule.grid, key=lambda stop: max(stop, value) / min(stop, value))
