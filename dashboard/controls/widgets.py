"""Ruled fields become widgets: of a page, bound to the link; of the sidebar, drawn from the session.

A shared control's value lives in the session under the field's name, whether or not it is drawn; its
widget has a key of its own, so that Streamlit forgets nothing when the widget is not drawn.
"""

from typing import Any

import streamlit as st

from dashboard.server.incidents import answered
from dashboard.text import plain
from posenc import fields

FEW = 64  # steps that a slider still tells apart


def pressed(place: Any, label: str, *, key: str, **look: Any) -> bool:
    """Draw a button and return whether it was pressed, also in a run that ended before it came here.

    What st.button returns is forgotten when the run before ends just as the run of the press begins,
    and when a rerun cuts that one short. Its callback is called in any case.
    """
    asked = f"{key}_asked"
    place.button(label, key=key, on_click=_remember, args=(asked,), **look)
    return bool(st.session_state.pop(asked, False))


@answered
def _remember(name: str) -> None:
    st.session_state[name] = True


def widget(place: Any, rule: fields.Rule, default: Any, **common: Any) -> Any:
    """Draw the widget of one ruled field and return what it holds; free text is its text.

    common: what every widget takes: key, bind or on_change.
    """
    common["help"] = rule.help or None
    match rule:
        case fields.MultiChoice():
            return place.pills(
                rule.label,
                rule.options,
                selection_mode="multi",
                default=list(default),
                format_func=labels(rule).__getitem__,
                **common,
            )
        case fields.Choice():
            return place.segmented_control(
                rule.label, rule.options, default=default, required=True, wrap=True, **common
            )
        case fields.Flag():
            return place.toggle(rule.label, default, **common)
        case fields.IntRange(grid=()) if rule.high - rule.low <= FEW:
            return place.slider(
                rule.label, rule.low, rule.high, default, rule.multiple_of, width=240, **common
            )
        case fields.IntRange():
            return place.number_input(
                rule.label, rule.low, rule.high, default, rule.multiple_of, **common
            )
        case fields.FloatRange():
            step = None if rule.grid else rule.high / 4
            least = 0.0 if rule.or_zero else rule.low
            return place.number_input(
                rule.label, least, rule.high, default, step=step, format="%.10g", **common
            )
    longest = getattr(rule, "longest", None)
    return place.text_input(rule.label, rule.write(default), max_chars=longest, width=280, **common)


def typed(rule: fields.Rule) -> bool:
    """Whether a field is free text, which may be no legal value."""
    drawn = fields.MultiChoice | fields.Choice | fields.Flag | fields.IntRange | fields.FloatRange
    return not isinstance(rule, drawn)


def understood(rule: fields.Rule, default: Any, text: str) -> Any:
    """Return what typed text means; where it means nothing, the default."""
    nearest = rule.nearest(text)
    return default if nearest is None else nearest


def tell_changed(rule: fields.Rule, text: str, used: Any) -> None:
    """Say what is used of typed text that is not what it says; the text itself stays."""
    if rule.write(used).replace(" ", "") != text.replace(" ", ""):
        st.warning(
            f"{rule.label} must be {rule.allowed()}; {plain(rule.describe(used))} is used instead.",
            icon=":material/info:",
        )


def labels(rule: fields.MultiChoice) -> dict[str, str]:
    """Return the words of a rule as people know them."""
    return dict(zip(rule.options, rule.labels, strict=True))


def control(place: Any, name: str, rule: fields.Rule, default: Any) -> None:
    """Draw the control of one shared field, whose value is the session's of that name."""
    key, value = f"{name}_control", st.session_state[name]
    if not typed(rule):
        show(key, value)
        widget(place, rule, default, key=key, on_change=_take, args=(name, key))
        return
    text = st.session_state.get(key)
    if text is None or understood(rule, default, text) != value:
        st.session_state[key] = text = rule.write(value)
    widget(place, rule, default, key=key, on_change=_read, args=(name, key, rule, default))
    tell_changed(rule, text, value)


def show(key: str, value: Any) -> None:
    """Make a widget that is about to be drawn show a value.

    Only where they differ: telling the browser what it just sent makes a held key stutter.
    """
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value


def dial(place: Any, name: str, rule: fields.Rule, *, key: str, **layout: Any) -> None:
    """A slider over the usual values of a shared number; the exact number is the session's."""
    assert isinstance(rule, fields.IntRange | fields.FloatRange)
    exact = st.session_state[name]
    nearest = _nearest_stop(rule, exact)
    label = rule.label if exact == nearest else f"{rule.label}, exactly {exact:,.10g}"
    show(key, nearest)
    place.select_slider(
        label,
        rule.grid,
        key=key,
        help=rule.help,
        format_func=lambda value: f"{value:,.10g}",
        on_change=_take,
        args=(name, key),
        **layout,
    )


@answered
def _take(name: str, key: str) -> None:
    st.session_state[name] = st.session_state[key]


@answered
def _read(name: str, key: str, rule: fields.Rule, default: Any) -> None:
    st.session_state[name] = understood(rule, default, st.session_state[key])


def _nearest_stop(rule: fields.IntRange | fields.FloatRange, value: float) -> float:
    """Return the slider's stop nearest to a value, by ratio."""
    return min(rule.grid, key=lambda stop: max(stop, value) / min(stop, value))
