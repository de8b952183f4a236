"""The shared controls in the sidebar, and those of one page: widgets in, a legal setting out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import results
from dashboard.blocks import Narrowed
from dashboard.controls import learned_table, link, model_picker, page_controls
from dashboard.controls.link import DEFAULTS, RULES
from dashboard.controls.widgets import control, show, widget
from dashboard.sentence_rule import Sentence
from dashboard.server.incidents import show_callback_errors
from dashboard.settings import PRESETS, Setting
from dashboard.settings.field_text import clamp, describe, nearest
from dashboard.settings.setting import head_count
from dashboard.settings.stops import STOPS
from dashboard.text import plain
from posenc import fields
from posenc.schemes import SCHEMES

Owner = TypeVar("Owner")

MOST_TITLES = 6  # side by side; more are a list to choose from
# What stands open; the rest is under More.
FIRST = ("base", "dim", "schemes", "length", "train_length")
PICKED = ("model", "learned_source")  # each by a picker of its own


def shared(place: Any, *, drawn: bool = True) -> Setting:
    """Draw the shared controls that this page uses and return the setting that all of them mean.

    place: the sidebar, or what stands for it. drawn: whether anybody sees it.
    """
    setting, notices = link.read_setting()
    device = results.device(setting.device)
    if drawn:
        used = page_controls.here(setting)
        with place:
            _draw(used - page_controls.drawn_here(), setting)
            _drawer(
                "Exact values",
                [name for name in RULES if name in used and name in STOPS],
                exact=True,
            )
            if "device" in used:
                st.caption(f"Computed on {results.device_label(device)}.")
    if setting.device not in ("auto", device):
        notices.append(
            f"There is no working {setting.device} device here: the numbers come from {device}."
        )
    tell(notices)
    return setting


def _draw(names: frozenset[str], setting: Setting) -> None:
    """Draw what stands open, what sets many controls at once, and the rarer controls in a drawer."""
    for name in FIRST:
        if name in names:
            control(st, name, RULES[name])
    if "model" in names:
        model_picker.draw()
    if "learned_source" in names:
        learned_table.picker(RULES["learned_source"])
    if names:
        _presets(names)
    rarer = [name for name in RULES if name in names and name not in (*FIRST, *PICKED)]
    _drawer("More", rarer, heads=head_count(setting.heads, setting.real_model))


def _drawer(title: str, names: Sequence[str], *, exact: bool = False, heads: int = 0) -> None:
    """Draw controls only once somebody opens them. heads: the largest number of the head shown."""
    if not names:
        return
    drawer = st.expander(title, key=title.lower().replace(" ", "_"), on_change="rerun")
    if drawer.open:
        for name in names:
            rule = RULES[name]
            if name == "alibi_head" and isinstance(rule, fields.IntRange):
                rule = replace(rule, high=min(rule.high, heads))
                if st.session_state[name] > rule.high:  # the mean is used, a notice says so
                    st.session_state[name] = 0
            control(drawer, name, rule, exact=exact)


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
        preset = PRESETS.get(st.session_state.get("last_preset", ""))
        if preset and all(st.session_state[name] == to for name, to in preset.changes.items()):
            st.caption(plain(f"{preset.label}: {preset.source}."))
    row.button("Reset", key="reset", on_click=_reset, icon=":material/restart_alt:")


@show_callback_errors
def _reset() -> None:
    link.set_state(DEFAULTS)


@show_callback_errors
def _take_preset() -> None:
    name = st.session_state["preset"]
    st.session_state["last_preset"] = name
    st.session_state.update(PRESETS[name].changes)


def choices(
    owner: type[Owner],
    place: DeltaGenerator | Mapping[str, DeltaGenerator] | None = None,
    words: Sequence[str] = (),
    empty: Mapping[str, str] | None = None,
    narrowed: Mapping[str, Narrowed] | None = None,
) -> Owner:
    """Draw the controls of one page in a row, or each in its own place, and return what was chosen.

    place: a control without a place is not drawn and has its default.
    words: what a field of free words can be right now. empty: what a number's field says while it is
    empty, which stands for its default. narrowed: the options that are offered of a choice, or the largest
    number, where its rule allows more; the first option replaces a default that is not offered. Of a word,
    the titles that are offered.
    """
    row = None if isinstance(place, Mapping) else place
    if place is None:
        row = st.container(horizontal=True, vertical_alignment="top")
    values: dict[str, Any] = {}
    st.session_state["owners"].append(owner)
    link.read_options(owner)
    for name, rule in fields.rules(owner).items():
        default = fields.defaults(owner)[name]
        if isinstance(place, Mapping) and name not in place:
            values[name] = default
            continue
        target = place[name] if isinstance(place, Mapping) else row
        assert target is not None
        narrower = (narrowed or {}).get(name)
        if isinstance(narrower, Mapping):
            values[name] = _titled(target, name, owner, narrower)
            continue
        if isinstance(rule, fields.Word):
            values[name] = _one_of(target, name, rule, default, words)
            continue
        if empty and name in empty:
            assert isinstance(rule, fields.IntRange)
            if st.session_state.get(name) == default:  # the field is empty then
                st.session_state[name] = None
            number = target.number_input(
                rule.label, rule.low, rule.high, None, key=name, help=rule.help or None,
                placeholder=empty[name], bind="query-params",
            )  # fmt: skip
            values[name] = default if number is None else number
            continue
        if isinstance(narrower, int) and isinstance(rule, fields.IntRange):
            rule = replace(rule, high=narrower)
            default = clamp(rule, default)
            # A slider with another end is a new widget, which takes over the value.
            if st.session_state.get(f"{name}_high") != narrower:
                st.session_state[f"{name}_high"] = narrower
                value = st.session_state.get(name, st.query_params.get(name, default))
                st.session_state[name] = nearest(rule, str(value))
        elif isinstance(narrower, Sequence) and isinstance(rule, fields.Choice):
            rule = replace(rule, options=tuple(narrower))
            default = default if rule.accepts(default) else rule.options[0]
        bind = "query-params" if name in link.linked_rules(owner) else None
        chosen = widget(target, rule, default, key=name, bind=bind)
        if isinstance(rule, fields.MultiChoice):  # of nothing at all, or too much, the nearest
            chosen = nearest(rule, ",".join(chosen)) or default
        elif isinstance(rule, Sentence):
            text, chosen = chosen, nearest(rule, chosen) or default
            if chosen.replace(" ", "") != text.replace(" ", ""):  # the text itself stays
                st.warning(
                    f"{rule.label} must be {rule.allowed()}; {plain(describe(rule, chosen))} is used "
                    "instead.",
                    icon=":material/info:",
                )
        values[name] = chosen
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


def _titled(place: Any, name: str, owner: type[Owner], titles: Mapping[str, str]) -> str:
    """Draw the choice of a word by its title and return the word.

    The link holds the word. Streamlit would write its title, so the address is written here.
    """
    rule, default = fields.rules(owner)[name], fields.defaults(owner)[name]
    asked: str = vars(link.options(owner))[name]
    word = asked if asked in titles else default
    _keep_word(name, word, default)
    key = f"{name}_control"
    show(key, word)
    look: dict[str, Any] = {
        "key": key, "format_func": titles.__getitem__, "help": rule.help or None, "on_change": _take_word,
        "args": (name, key, default),
    }  # fmt: skip
    if len(titles) > MOST_TITLES:
        place.selectbox(rule.label, [*titles], width=320, **look)
    else:
        place.segmented_control(rule.label, [*titles], required=True, wrap=True, **look)
    return word


@show_callback_errors
def _take_word(name: str, key: str, default: str) -> None:
    _keep_word(name, st.session_state[key], default)


def _keep_word(name: str, word: str, default: str) -> None:
    """Put a word into the session and, where it is not the default, into the address."""
    st.session_state[name] = word
    if word == default:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != word:
        st.query_params[name] = word


def tell(notices: list[str]) -> None:
    """Show what had to be changed in the link or among the controls, in plain sentences."""
    notices = [*dict.fromkeys([*st.session_state["link_notices"], *notices])]
    place = st.container()  # without a notice too: else the page below moves and is drawn anew
    if len(notices) == 1:
        place.warning(plain(notices[0]), icon=":material/info:")
    elif notices:
        lines = [f"{len(notices)} values were changed:", *(f"- {plain(text)}" for text in notices)]
        place.warning("\n".join(lines), icon=":material/info:")
