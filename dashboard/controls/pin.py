"""The pinned setting, A: a whole setting as one token of the link, so that a link shares both."""

from typing import Any

import streamlit as st

from dashboard.ab import AB
from dashboard.controls.widgets import set_value
from dashboard.server import settings as server_settings
from dashboard.settings import Setting, read_text, record
from dashboard.settings.field_text import describe
from dashboard.text import listed, plain
from posenc import fields
from posenc.fields import written
from posenc.models.config_token import MAX_TOKEN
from posenc.schemes import SCHEMES
from posenc.schemes.sizes import own_rules

KEY = "a"
SEPARATOR = "~"  # in no value, and written into a link as it is
MOST_CHARACTERS = 3_000 + MAX_TOKEN


def named_values(setting: Setting) -> dict[str, Any]:
    """Return every field that a link names, with its value, defaults too.

    Of schemes that are not shown only what is no default: some forty fields would make a link that
    messages cut off.
    """
    names = {f"{kind}.{name}" for kind in setting.schemes for name in SCHEMES[kind].own_rules()}
    names |= {*fields.rules(Setting), *dict(setting.own)}
    return {name: value for name, value in record(setting).items() if name in names}


def to_token(setting: Setting) -> str:
    """Return the token of a setting: every field by its name, defaults too."""
    texts = {name: written(value) for name, value in named_values(setting).items()}
    return SEPARATOR.join(part for pair in texts.items() for part in pair)


def read(token: str) -> tuple[Setting | None, list[str]]:
    """Return the setting that a token means, None for none, and the names of what is left out of it."""
    if not token:
        return None, []
    parts = token.split(SEPARATOR) if len(token) <= MOST_CHARACTERS else []
    named = dict(zip(parts[::2], parts[1::2], strict=False))
    known = fields.rules(Setting).keys() | own_rules().keys()
    if not known & named.keys():
        return None, [KEY]
    setting, left_out = read_text(named)
    setting, capped = server_settings.within(setting)
    return setting, [f"{KEY}.{name}" for name in [*left_out, *(["length"] if capped else [])]]


def legal_token(token: str) -> tuple[str, list[str]]:
    """Return the token of what a link pins, and the names of what is left out of it."""
    setting, left_out = read(token)
    return ("" if setting is None else to_token(setting)), left_out


def ab(setting: Setting) -> AB[Setting]:
    """Return the setting at hand beside the pinned one, which shows the same schemes."""
    pinned, _ = read(token())
    return AB(setting, None if pinned is None else pinned.replace(schemes=setting.schemes))


def token() -> str:
    """Return the token of the pinned setting of this session, "" where none is pinned."""
    pinned: str = st.session_state.get(KEY, "")
    return pinned


def changed(settings: AB[Setting]) -> list[tuple[str, str, str]]:
    """Return what differs between A and B: label, A's value, B's value."""
    if settings.pinned is None:
        return []
    rules = fields.rules(Setting) | own_rules()
    of_b, of_a = record(settings.current), record(settings.pinned)
    return [
        (rule.label.lower(), describe(rule, of_a[name]), describe(rule, of_b[name]))
        for name, rule in rules.items()
        if of_a[name] != of_b[name]
    ]


def differences(settings: AB[Setting]) -> str:
    """Say in which fields the pinned setting differs from the one at hand."""
    if settings.pinned is None:
        return "Nothing is pinned."
    parts = [f"{label} {value}" for label, value, _ in changed(settings)]
    return f"A has {listed(parts)}." if parts else "A and B are equal. Change a control to compare."


def names(settings: AB[Setting]) -> dict[str, str]:
    """Return what a legend calls A and B: by what differs, the first two things where it is more."""
    differing = changed(settings)
    if not differing:
        return {"A": "A (pinned)", "B": "B (current)"}
    more = [f"{len(differing) - 2} more"] if len(differing) > 2 else []
    of_b = [f"{label} {value}" for label, _, value in differing[:2]]
    of_a = [f"{label} {value}" for label, value, _ in differing[:2]]
    return {"A": f"A: {', '.join(of_a + more)}", "B": f"B: {', '.join(of_b + more)}"}


def control(setting: Setting) -> None:
    """Draw what pins the setting at hand and lets go of it."""
    settings = ab(setting)
    row = st.container(horizontal=True)
    row.button(
        "Pin this setting as A",
        key="pin",
        on_click=set_value,
        args=(KEY, to_token(setting)),
        icon=":material/keep:",
    )
    row.button(
        "Unpin", key="unpin", on_click=set_value, args=(KEY, ""), disabled=not settings.compared,
        icon=":material/keep_off:",
    )  # fmt: skip
    st.caption(plain(differences(settings)))
