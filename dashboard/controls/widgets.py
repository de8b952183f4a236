"""Ruled fields become widgets: of a page, bound to the link; shared ones, drawn from the session."""

from typing import Any

import streamlit as st

from dashboard.server.incidents import show_callback_errors
from dashboard.settings.stops import STOPS
from posenc import fields
from posenc.fields import written

MOST_SLIDER_STEPS = 64
WIDE_SLIDER_STEPS = 12  # a slider with fewer is half as wide
MOST_PILLS = 12  # options side by side; more are a list to choose from


def button(place: Any, label: str, *, key: str, **look: Any) -> bool:
    """Draw a button and return whether it was pressed, also in a run that ended before it came here.

    What st.button returns is forgotten when the run before ends just as the run of the press begins,
    and when a rerun cuts that one short. Its callback is called in any case.
    """
    asked = f"{key}_asked"
    place.button(label, key=key, on_click=set_value, args=(asked, True), **look)
    return bool(st.session_state.pop(asked, False))


@show_callback_errors
def set_value(name: str, value: Any) -> None:
    """Put a value into the session, as the callback of a button."""
    st.session_state[name] = value


def widget(place: Any, rule: fields.Rule, default: Any, *, step: float = 0.0, **common: Any) -> Any:
    """Draw the widget of one ruled field and return what it holds; free text is its text.

    default: as the widget holds it. step: of a real number, 0 for a quarter of its range.
    common: what every widget takes: key, bind or on_change.
    """
    common["help"] = rule.help or None
    match rule:
        case fields.MultiChoice():
            common |= {"default": [*default], "format_func": labels(rule).__getitem__}
            if len(rule.options) > MOST_PILLS:
                return place.multiselect(
                    rule.label, tuple(rule.options), max_selections=rule.most, **common
                )
            return place.pills(
                rule.label, tuple(rule.options), selection_mode="multi", wrap=True, **common
            )
        case fields.Choice():
            common |= {"default": default, "format_func": labels(rule).__getitem__}
            return place.segmented_control(
                rule.label, rule.options, required=True, wrap=True, **common
            )
        case fields.Flag():
            return place.toggle(rule.label, default, **common)
        case fields.IntRange() if rule.high - rule.low <= MOST_SLIDER_STEPS:
            return place.slider(
                rule.label,
                rule.low,
                rule.high,
                default,
                rule.multiple_of,
                width=240 if rule.high - rule.low >= WIDE_SLIDER_STEPS else 130,
                **common,
            )
        case fields.IntRange():
            return place.number_input(
                rule.label, rule.low, rule.high, default, rule.multiple_of, **common
            )
        case fields.FloatRange():
            least = 0.0 if rule.or_zero else rule.low
            return place.number_input(
                rule.label,
                least,
                rule.high,
                default,
                step=step or rule.high / 4,
                format="%.10g",
                **common,
            )
    return place.text_input(rule.label, default, width=240, **common)


def is_free_text(rule: fields.Rule) -> bool:
    """Whether a field is free text, which may be no legal value."""
    drawn = fields.MultiChoice | fields.Choice | fields.Flag | fields.IntRange | fields.FloatRange
    return not isinstance(rule, drawn)


def labels(rule: fields.MultiChoice | fields.Choice) -> dict[str, str]:
    """Return the label of every option: the option itself where the rule has no labels."""
    return dict(zip(rule.options, rule.labels or rule.options, strict=True))


def control(place: Any, name: str, rule: fields.Rule, *, exact: bool = False) -> None:
    """Draw the control of one shared field, whose value is the session's of that name, drawn or not.

    Of a number with usual values a slider over them; exact: a field for any number instead.
    """
    key, value = f"{name}_{'exact' if exact else 'control'}", st.session_state[name]
    show(key, value)
    # Its default is what it shows: a browser that draws it anew, in another place, begins there.
    common: dict[str, Any] = {"key": key, "on_change": take_value, "args": (name, key)}
    if exact or name not in STOPS:
        widget(place, rule, value, step=0.01 if name in STOPS else 0.0, **common)
        return
    place.select_slider(
        rule.label,
        sorted({*STOPS[name], value}),  # an exact value is a stop while it is chosen
        value,
        help=rule.help,
        format_func=lambda stop: f"{stop:,.15g}",
        **common,
    )


@show_callback_errors
def take_value(name: str, key: str) -> None:
    """Give a shared field the value of its widget, as the callback of that widget."""
    st.session_state[name] = st.session_state[key]


def show(key: str, value: Any) -> None:
    """Make a widget that is about to be drawn show a value.

    Only where they differ: telling the browser what it just sent makes a held key stutter.
    """
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value


def widget_value(rule: fields.Rule, value: Any) -> Any:
    """Return a value as its widget holds it: several words as a list, free text as its text."""
    if isinstance(rule, fields.MultiChoice):
        return list(value)
    return written(value) if is_free_text(rule) else value


def widget_text(rule: fields.Rule, value: Any) -> str:
    """Return the text that the rule reads of what a widget holds."""
    if isinstance(rule, fields.MultiChoice):
        return ",".join(value)
    return value if is_free_text(rule) else written(value)
