"""Fields with rules as widgets, and the shared controls that a page uses.

A widget's key is the name of its field. Before it is drawn it is made to show the value of the state.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeGuard

import streamlit as st

from dashboard import pickers, results, session, state
from dashboard.blocks import Narrowed, Uses
from dashboard.server import settings
from dashboard.settings import PRESETS, Setting, record
from dashboard.settings.labelled import LabelledIntRange, labels_of, number_text
from dashboard.settings.stops import STOPS, stop_text
from dashboard.state import RULES
from dashboard.text import plain
from posenc import fields
from posenc.schemes import SCHEMES

MOST_SLIDER_STEPS = 64
WIDE_SLIDER_STEPS = 12  # a slider with fewer is half as wide
MOST_PILLS = 12  # options side by side; more are a list to choose from
MOST_TITLES = 6  # of words

ON_BAR = ("base", "dim")  # while a page is presented
# What stands open, in this order; the rest is under More.
FIRST = ("base", "dim", "schemes", "length", "train_length")
PICKED = ("model", "learned_source")  # each in a menu of its own
LISTED = (*STOPS, "heads", "alibi_head")  # sliders over the values that go with the other numbers


def control(
    place: Any,
    name: str,
    value: Any,
    *,
    exact: bool = False,
    offered: Narrowed | None = None,
    empty: str = "",
) -> None:
    """Draw the widget of a field, which shows its value and, turned, replaces the state.

    exact: a field for any number where there is a slider. offered: as `Controls.narrowed`. empty: what a
    number's field says while it is empty, which stands for its default.
    """
    rule = session.rule_of(name)
    key = f"{name}_exact" if exact else name
    typed = session.typed(name, value)
    if isinstance(offered, Mapping) and value not in offered:
        value = session.default_of(name)
    shown = _shown(rule, typed or value, offered, empty=bool(empty))
    session.show(key, shown)
    common: dict[str, Any] = {
        "key": key, "help": rule.help or None, "on_change": session.take, "args": (name, key),
    }  # fmt: skip
    if name in LISTED and name in RULES and not exact:
        setting = session.current().setting
        stops = state.stops(setting, name, settings.current().positions)
        place.select_slider(rule.label, stops, shown, format_func=slider_text(rule), **common)
    else:
        _widget(place, rule, shown, offered, empty, common | {"step": 0.01} if exact else common)
    if typed:
        place.warning(plain(state.told_cut(rule, value)), icon=":material/info:")


def is_slider(rule: fields.Rule | None) -> TypeGuard[fields.IntRange]:
    """Whether a number is set by a slider over its whole range, where nothing stands for an empty one."""
    return isinstance(rule, fields.IntRange) and rule.high - rule.low <= MOST_SLIDER_STEPS


def slider_text(rule: fields.Rule | None) -> Callable[[float], str]:
    """Return the function that gives the words of a slider for a number."""
    return partial(number_text, rule) if isinstance(rule, LabelledIntRange) else stop_text


def _shown(rule: fields.Rule, value: Any, offered: Narrowed | None, *, empty: bool) -> Any:
    """Return a value as its widget holds it: the last or first that is offered where it is not."""
    if isinstance(rule, fields.MultiChoice):
        return [*value]
    if isinstance(rule, fields.Numbers):
        return fields.written(value)
    if isinstance(offered, int):
        return min(value, offered)
    if isinstance(offered, Sequence) and value not in offered:
        return offered[0]
    return None if empty and not value else value


def _widget(
    place: Any,
    rule: fields.Rule,
    shown: Any,
    offered: Narrowed | None,
    empty: str,
    common: dict[str, Any],
) -> None:
    step = common.pop("step", None)
    match rule:
        case fields.MultiChoice():
            common |= {"default": shown, "format_func": labels_of(rule).__getitem__}
            if len(rule.options) > MOST_PILLS:
                place.multiselect(
                    rule.label, tuple(rule.options), max_selections=rule.most, **common
                )
            else:
                place.pills(
                    rule.label, tuple(rule.options), selection_mode="multi", wrap=True, **common
                )
        case fields.Choice():
            options = tuple(offered) if isinstance(offered, Sequence) else rule.options
            common |= {"default": shown, "format_func": labels_of(rule).__getitem__}
            place.segmented_control(rule.label, options, required=True, wrap=True, **common)
        case fields.Word() if isinstance(offered, Mapping) and len(offered) <= MOST_TITLES:
            place.segmented_control(
                rule.label, [*offered], default=shown, required=True, wrap=True,
                format_func=offered.__getitem__, **common,
            )  # fmt: skip
        case fields.Word() if isinstance(offered, Mapping):
            place.selectbox(
                rule.label, [*offered], width=320, format_func=offered.__getitem__, **common
            )
        case fields.Word() if isinstance(offered, Sequence):
            place.selectbox(rule.label, [*offered], width=320, **common)
        case fields.Flag():
            place.toggle(rule.label, shown, **common)
        case LabelledIntRange():
            high = offered if isinstance(offered, int) else rule.high
            place.select_slider(
                rule.label, range(rule.low, high + 1), shown, width=240,
                format_func=slider_text(rule), **common,
            )  # fmt: skip
        case fields.IntRange() if is_slider(rule) and not empty:
            high = offered if isinstance(offered, int) else rule.high
            width = 240 if high - rule.low >= WIDE_SLIDER_STEPS else 130
            if high > rule.low:
                place.slider(
                    rule.label, rule.low, high, shown, rule.multiple_of, width=width, **common
                )
        case fields.IntRange():
            place.number_input(
                rule.label, rule.low, rule.high, shown, rule.multiple_of, placeholder=empty or None,
                **common,
            )  # fmt: skip
        case fields.FloatRange():
            least = 0.0 if rule.or_zero else rule.low
            place.number_input(
                rule.label, least, rule.high, shown, step=step or rule.high / 4, format="%.10g",
                **common,
            )  # fmt: skip
        case _:
            place.text_input(rule.label, shown, width=240, **common)


# The shared controls --------------------------------------------------------------------------


def draw(place: Any, setting: Setting, uses: Uses, apart: Collection[str] = ()) -> None:
    """Draw the shared controls that a page uses, in the sidebar or in what stands for it.

    apart: those that stand elsewhere.
    """
    names, values = used(uses, setting), record(setting)
    here = names - {*uses.drawn, *apart}
    with place:
        for name in FIRST:
            if name in here:
                control(st, name, values[name])
        for name in PICKED:
            if name in here:
                pickers.draw(name, setting)
        if here:
            _presets(here)
        rarer = [name for name in RULES if name in here and name not in (*FIRST, *PICKED)]
        _drawer("More", rarer, values)
        _drawer("Exact values", [n for n in RULES if n in names and n in STOPS], values, exact=True)
        if "device" in names:
            st.caption(f"Computed on {results.device_label(results.device(setting.device))}.")


def draw_bar(names: Sequence[str], setting: Setting) -> None:
    """Draw sliders side by side at the bottom edge of the window, which move what is presented."""
    with st.bottom.container(horizontal=True, key="stage_bar"):
        for name in names:
            control(st, name, record(setting)[name])


def _drawer(
    title: str, names: Sequence[str], values: Mapping[str, Any], *, exact: bool = False
) -> None:
    """Draw controls once somebody opens them."""
    if not names:
        return
    drawer = st.expander(title, key=title.lower().replace(" ", "_"), on_change="rerun")
    if drawer.open:
        for name in names:
            control(drawer, name, values[name], exact=exact)


def _presets(names: frozenset[str]) -> None:
    """Draw what sets many controls at once."""
    row = st.container(horizontal=True)
    if any(names & {*preset.changes} for preset in PRESETS.values()):
        row.menu_button(
            "Presets",
            tuple(PRESETS),
            key="preset",
            format_func=lambda name: (
                f"{PRESETS[name].label} ({SCHEMES[PRESETS[name].scheme].label})"
            ),
            icon=":material/tune:",
            help="Sets the numbers of a well-known model. The schemes and all other controls stay.",
            on_click=_take_preset,
        )
    row.button("Reset", key="reset", icon=":material/restart_alt:", on_click=session.reset)


@session.callback
def _take_preset() -> None:
    preset = PRESETS[st.session_state["preset"]]
    session.change(preset.changes)
    st.toast(plain(f"{preset.label}: {preset.source}."))


# Which controls -------------------------------------------------------------------------------


def used(uses: Uses, setting: Setting) -> frozenset[str]:
    """Return the names of the fields, own ones of schemes too, that change what a page shows."""
    names = {*uses.itself}
    if uses.schemes:
        names.add("model")
        for kind in setting.schemes:
            names |= of_scheme(setting, kind)
    return frozenset(RULES) & (names - {*uses.never})


def of_scheme(setting: Setting, kind: str) -> set[str]:
    """Return the names of the fields that change what one scheme does."""
    config = setting.config(kind)
    if setting.of_model(kind) is not None:
        names = {"alibi_head"} if "heads" in fields.rules(config) else set()
        if "learned_source" in config.sizes_used:
            names |= {"learned_source", "seed"}
        if (
            "source" in config.own_rules()
        ):  # a start by seed, or a run's numbers instead of the model's
            names |= {"seed", f"{kind}.source"}
        return names | {"precision"}
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
