"""The shared controls in the sidebar, and those of one page: widgets in, a legal what-if out."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.compute import schemes
from dashboard.controls import learned_table, link, model_picker, page_controls
from dashboard.controls.sentence_rule import Sentence
from dashboard.controls.widgets import (
    control,
    dial,
    labels,
    pressed,
    show,
    tell_changed,
    understood,
    widget,
)
from dashboard.server import settings
from dashboard.server.incidents import answered
from dashboard.text import plain
from posenc import fields
from posenc.schemes import SCHEMES
from posenc.settings import PRESETS, Setting, from_text, own_defaults, own_rules

__all__ = ["choices", "dial", "shared", "tell"]

Owner = TypeVar("Owner")

DIALS = ("base", "dim", "length", "train_length")  # shown as sliders, exact values underneath
MORE = ("equal_width", "heads", "alibi_head", "seed", "precision", "device")
AT_ONCE = 5  # schemes that are offered without opening anything, the first of the registry


def shared(place: Any, *, drawn: bool = True) -> Setting:
    """Draw the shared controls that this page uses and return the what-if that all of them mean.

    place: the sidebar, or what stands for it. drawn: whether anybody sees it.
    """
    with place:
        if drawn:
            first, below = st.container(), st.container()
            with (
                below
            ):  # drawn under the dials, and asked before them: Reset changes what they show
                _quick(page_controls.here(_meant()[0]) - page_controls.drawn_here())
        names = page_controls.here(_meant()[0])  # Reset changes it
        if drawn:
            with first:
                _main(names - page_controls.drawn_here())
            _drawers(names)
    setting, notices = _meant()  # an upload changes it
    link.write()
    device = schemes.device(setting.device)
    if setting.device not in ("auto", device):
        notices.append(
            f"There is no working {setting.device} device here: the numbers come from {device}."
        )
    if drawn and "device" in names:
        place.caption(f"Computed on {schemes.device_label(device)}.")
    tell(notices)
    return setting


def _meant() -> tuple[Setting, list[str]]:
    """Return the legal what-if nearest to what the session holds, and what had to be changed."""
    names = (fields.rules(Setting) | own_rules()).keys()
    held = tuple(_held(st.session_state[name]) for name in names)
    setting, notices = _nearest(held)
    setting, capped = settings.within(setting)
    return setting, [*notices, *capped]


def _held(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# A run asks three times, and a visitor mostly turns one control among ninety.
@functools.lru_cache(maxsize=256, typed=True)
def _nearest(held: tuple[Any, ...]) -> tuple[Setting, tuple[str, ...]]:
    """Return the legal what-if nearest to the values of all shared fields, and what was changed."""
    rules = fields.rules(Setting) | own_rules()
    texts = {
        name: rule.write(value) for (name, rule), value in zip(rules.items(), held, strict=True)
    }
    setting, notices = from_text(texts)
    return setting, tuple(notices)


def _quick(names: frozenset[str]) -> None:
    """Draw what sets many controls at once, on pages where that changes any of those drawn."""
    if not names:
        return
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
            help="The numbers of a model that made a scheme known; schemes and the rest stay.",
            on_click=_take_preset,
        )
        preset = PRESETS.get(st.session_state.get("last_preset", ""))
        if preset and all(st.session_state[name] == to for name, to in preset.changes.items()):
            st.caption(plain(f"{preset.label}: {preset.source}."))
    if pressed(row, "Reset", key="reset", icon=":material/restart_alt:"):
        link.hold(fields.defaults(Setting) | own_defaults())


@answered
def _take_preset() -> None:
    name = st.session_state["preset"]
    st.session_state["last_preset"] = name
    st.session_state.update(PRESETS[name].changes)


def _main(names: frozenset[str]) -> None:
    """Draw what stands open: dials, schemes, the model, the learned table."""
    rules = fields.rules(Setting)
    for name in (*DIALS[:2], "schemes", *DIALS[2:]):
        if name == "schemes" and name in names:
            rule = rules[name]
            assert isinstance(rule, fields.MultiChoice)
            _schemes(rule)
        elif name in names:
            dial(st, name, rules[name], key=f"{name}_dial")
    if "model" in names:
        model_picker.picker()
    if "learned_source" in names:
        learned_table.picker(rules["learned_source"])


def _schemes(rule: fields.MultiChoice) -> None:
    """Draw the choice of schemes: the first ones and the chosen ones at once, the rest in a menu."""
    chosen: list[str] = st.session_state["schemes"]
    place = st.container()
    others = [kind for kind in rule.options[AT_ONCE:] if kind not in chosen]
    if others:
        st.menu_button(
            "More schemes",
            others,
            key="add_scheme",
            format_func=lambda kind: _offered(rule, kind),
            icon=":material/add:",
            disabled=len(chosen) >= rule.most,
            help=f"At most {rule.most} at once: take one away before you add another.",
            on_click=_add_scheme,
            args=(rule,),
        )
    show("schemes_control", chosen)
    place.pills(
        rule.label,
        [kind for n, kind in enumerate(rule.options) if n < AT_ONCE or kind in chosen],
        selection_mode="multi",
        format_func=labels(rule).__getitem__,
        key="schemes_control",
        on_change=_take_schemes,
        args=(rule,),
        help=rule.help,
    )


def _offered(rule: fields.MultiChoice, kind: str) -> str:
    """Return a scheme's name as the menu has it: the advanced ones are marked."""
    return f"{labels(rule)[kind]}{' (advanced)' if SCHEMES[kind].advanced else ''}"


@answered
def _add_scheme(rule: fields.MultiChoice) -> None:
    chosen = (*st.session_state["schemes"], st.session_state["add_scheme"])
    if len({*chosen}) <= rule.most:
        st.session_state["schemes"] = [kind for kind in rule.options if kind in chosen]


@answered
def _take_schemes(rule: fields.MultiChoice) -> None:
    chosen = st.session_state["schemes_control"]
    if len(chosen) > rule.most:  # what was chosen stays, rather than what the registry has first
        added = [kind for kind in chosen if kind not in st.session_state["schemes"]]
        st.session_state["link_notices"].append(
            f"At most {rule.most} schemes stand side by side: take one away before you add "
            f"{rule.describe(tuple(added))}."
        )
        return
    st.session_state["schemes"] = [kind for kind in rule.options if kind in chosen]


def _drawers(names: frozenset[str]) -> None:
    """Draw the numbers in full and the rarer controls, only once somebody opens them."""
    rules = fields.rules(Setting) | own_rules()
    default = fields.defaults(Setting) | own_defaults()
    own = [name for name in own_rules() if name in names]
    drawers = {
        "Exact values": [name for name in DIALS if name in names],
        "More": [*(name for name in MORE if name in names), *own],
    }
    for title, held in drawers.items():
        if not held:
            continue
        drawer = st.expander(title, key=title.lower().replace(" ", "_"), on_change="rerun")
        if drawer.open:
            with drawer:
                for name in held:
                    control(st, name, rules[name], default[name])


def choices(
    owner: type[Owner],
    place: DeltaGenerator | Mapping[str, DeltaGenerator] | None = None,
    words: Sequence[str] = (),
    empty: Mapping[str, str] | None = None,
    narrowed: Mapping[str, Sequence[str]] | None = None,
) -> Owner:
    """Draw the controls of one page in a row, or each in its own place, and return what was chosen.

    words: what a field of free words can be right now. empty: what a number's field says while it is
    empty, which stands for its default. narrowed: the options that are offered of a choice, where they
    are fewer than its rule allows; the first replaces a default that is not offered.
    """
    row = None if isinstance(place, Mapping) else place
    if place is None:
        row = st.container(horizontal=True, vertical_alignment="top")
    values: dict[str, Any] = {}
    st.session_state.setdefault("owners", []).append(owner)
    link.take_up(owner)
    for name, rule in fields.rules(owner).items():
        default = fields.defaults(owner)[name]
        target = place[name] if isinstance(place, Mapping) else row
        assert target is not None
        if isinstance(rule, fields.Word):
            values[name] = _one_of(target, name, rule, default, words)
            continue
        if empty and name in empty:
            assert isinstance(rule, fields.IntRange)
            number = target.number_input(
                rule.label, rule.low, rule.high, None, key=name, help=rule.help or None,
                placeholder=empty[name], bind="query-params",
            )  # fmt: skip
            values[name] = default if number is None else number
            continue
        if narrowed and name in narrowed and isinstance(rule, fields.Choice):
            rule = replace(rule, options=tuple(narrowed[name]))
            default = default if rule.accepts(default) else rule.options[0]
        chosen = widget(target, rule, default, key=name, bind="query-params")
        if isinstance(rule, fields.MultiChoice):  # of nothing at all, or too much, the nearest
            chosen = rule.nearest(",".join(chosen)) or default
        elif isinstance(rule, Sentence):
            text, chosen = chosen, understood(rule, default, chosen)
            tell_changed(rule, text, chosen)
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


def tell(notices: list[str]) -> None:
    """Show what had to be changed in the link or among the controls, in plain sentences."""
    told = [*dict.fromkeys([*st.session_state.get("link_notices", ()), *notices])]
    if len(told) == 1:
        st.warning(plain(told[0]), icon=":material/info:")
    elif told:
        lines = [f"{len(told)} things were changed:", *(f"- {plain(notice)}" for notice in told)]
        st.warning("\n".join(lines), icon=":material/info:")
    st.session_state["link_notices"] = []
