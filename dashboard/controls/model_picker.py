"""The model: a well-known one, or the visitor's own by its config.json; one choice for all pages.

The choice is a token in the session under "model", and in the link. Nothing of a pasted or uploaded
config is kept but that token, which holds the keys that bear on position.
"""

import hashlib
from typing import Any, Literal

import streamlit as st

from dashboard.controls import page_controls, uploads
from dashboard.controls.widgets import button, show
from dashboard.models import about, numbers_of, other_facts, other_layers
from dashboard.server import incidents
from dashboard.server.incidents import show_callback_errors
from dashboard.settings import ChosenModel, Setting, chosen_model
from dashboard.settings.setting import MAX_SCHEMES
from dashboard.text import plain
from posenc import limits
from posenc.errors import ConfigFileError
from posenc.models import config_token
from posenc.models.presets import MODELS
from posenc.schemes import SCHEMES
from posenc.schemes.base import SchemeConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.trainable import INITIAL, TrainableConfig
from posenc.text import printable_name

MOST_PASTED = 8  # configs of a session that stay to choose from


def draw() -> None:
    """Draw the choice of the model, what it is, and what takes the visitor's own."""
    select(st, "model_control")
    model = chosen()
    if model is not None:
        st.caption(plain(about(model)))
        if model.scheme is not None and model.scheme.kind not in st.session_state["schemes"]:
            _offer(model.scheme)
        else:
            st.caption(plain(_panel_note(model)))
        if others := other_layers(model):
            st.caption(plain(others))
        list_other_facts(model)
    draw_own_config()


def draw_here(place: Any, none: str) -> None:
    """Draw the choice on a page. none: what the first choice is called."""
    select(place, "model_here_control", none, width=340)


def draw_own_config_here(place: Any) -> None:
    """Draw what takes the visitor's own config on a page; where it is refused, what follows is not drawn.

    An answer about another model would be taken for one about this.
    """
    with place.container():
        if draw_own_config():
            st.info("There is no answer for a config that is refused: correct it, or remove it.")
            raise incidents.PageEnded


def draw_own_config() -> bool:
    """Draw what takes the visitor's own config, once somebody opens it; return whether it refuses one."""
    drawer = st.expander(
        "Your own model", key="your_model", on_change="rerun", icon=":material/upload_file:"
    )
    if not drawer.open:
        return False
    with drawer:
        # Fresh fields once a config was taken, so that nothing of its text stays.
        taken = st.session_state.get("configs_taken", 0)
        text = st.text_area(
            "Paste its config.json",
            key=f"config_text_{taken}",
            height=140,
            max_chars=limits.MAX_CONFIG_BYTES,
            placeholder='{"model_type": "llama", ...}',
            help="The link holds the keys about position and nothing else of the file.",
        )
        file = uploads.uploader(
            st,
            "Or upload its config.json",
            key=f"model_file_{taken}",
            help="A checkpoint does not say the settings of RoPE or ALiBi.",
            most_mb=limits.MAX_CONFIG_BYTES // 2**20,
        )
        asked = button(st, "Use this config", key="use_config", icon=":material/check:")
        content = text.encode("utf-8", "replace") if file is None else file.getvalue()
        if not (content or asked or file is not None):
            return False
        token = _read_token(content, "" if file is None else printable_name(file.name))
        if asked and token:
            _choose(token)
            st.session_state["configs_taken"] = taken + 1
            st.rerun()
        return not token


def chosen() -> ChosenModel | None:
    """Return the model of this session, None where none is chosen or it cannot be read."""
    token: str = st.session_state.get("model", "")
    try:
        return chosen_model(token) if token else None
    except ConfigFileError:  # told where the link was read
        return None


def assumption(setting: Setting) -> str:
    """Return the sentence on what a setting's model rests on, "" where this page uses no such model."""
    if "model" not in page_controls.here(setting) or setting.real_model is None:
        return ""
    return setting.real_model.config.assumption


def select(
    place: Any, key: str, none: str = "None", width: int | Literal["stretch"] = "stretch"
) -> None:
    """Draw the choice among none, what was pasted in this session, and the models that are known.

    none: what the first choice is called. key: of the widget; the choice itself is the session's. width:
    in pixels, where a name must not be cut beside something else.
    """
    current: str = st.session_state["model"]
    unlisted = [current] if current and current not in MODELS else []
    configs = dict.fromkeys((*st.session_state.get("own_models", ()), *unlisted))
    st.session_state["own_models"] = tuple(configs)[-MOST_PASTED:]
    show(key, current)
    place.selectbox(
        "Model",
        ("", *st.session_state["own_models"], *sorted(MODELS, key=_newest_first)),
        key=key,
        format_func=lambda token: _option_label(token) if token else none,
        on_change=_take_selection,
        args=(key,),
        width=width,
        help="A real model: its numbers stand in the panel of its scheme. A check mark: every number "
        "was checked against its source.",
    )


def _newest_first(token: str) -> tuple[int, str]:
    return -MODELS[token].year, MODELS[token].label.lower()


def _option_label(token: str) -> str:
    model = chosen_model(token)
    scheme = model.layer_kind.scheme
    verified = " ✓" if model.preset.source and not model.preset.unverified else ""
    year = f"{model.preset.year}: " if model.preset.year else ""
    return f"{year}{model.preset.label}{'' if scheme is None else f', {scheme.label}'}{verified}"


@show_callback_errors
def _take_selection(key: str) -> None:
    _choose(st.session_state[key])


def _choose(token: str) -> None:
    """Make a model the session's, its scheme one of those that are shown, if there is room."""
    st.session_state["model"] = token
    model = chosen()
    if model is None or model.scheme is None:
        return
    _show_scheme(model.scheme.kind)
    # A random start is the one choice that has the model's shape.
    if isinstance(model.scheme, LearnedConfig) and st.session_state["learned_source"] == "trained":
        st.session_state["learned_source"] = "random"
    if isinstance(model.scheme, TrainableConfig):
        st.session_state[f"{model.scheme.kind}.source"] = INITIAL


@show_callback_errors
def _show_scheme(kind: str) -> None:
    shown: list[str] = st.session_state["schemes"]
    if len(shown) < MAX_SCHEMES:
        st.session_state["schemes"] = [name for name in SCHEMES if name in (*shown, kind)]


def _offer(scheme: SchemeConfig) -> None:
    """Say that a model's scheme is not among those that are shown, and offer to show it."""
    full = len(st.session_state["schemes"]) >= MAX_SCHEMES
    st.caption(
        f"Its scheme, {scheme.label}, is not among those shown"
        + (": remove one first." if full else ".")
    )
    st.button(
        f"Show {scheme.label}", key="show_scheme", on_click=_show_scheme, args=(scheme.kind,),
        disabled=full, icon=":material/add:",
    )  # fmt: skip


def _panel_note(model: ChosenModel) -> str:
    """Say which panel shows a model, or why none does."""
    scheme = model.scheme
    if scheme is None:
        return f"No panel shows it. {model.layer_kind.unsupported or model.too_large}"
    if isinstance(scheme, LearnedConfig):
        return (
            "Its config holds the shape of the learned table, not its rows: a random start has that "
            "shape; upload its checkpoint for the rows."
        )
    numbers = numbers_of(model) or f"{getattr(scheme, 'heads', 0):,} heads"
    if isinstance(scheme, TrainableConfig):
        return (
            f"The {scheme.label} panel has its {numbers}; its config holds no trained numbers, so a "
            "random start of that shape is shown."
        )
    return f"The {scheme.label} panel has its numbers: {numbers}. Others keep those of the sidebar."


def list_other_facts(model: ChosenModel) -> None:
    """List what was assumed, what the config says besides and was not read."""
    assumed = model.config.assumed
    sentences = [*assumed, *other_facts(model)]
    if not sentences:
        return
    title = "What was assumed" if assumed else "Other facts in the config"
    with st.expander(title, icon=":material/help_center:"):
        for sentence in sentences:
            st.markdown(f"- {plain(sentence)}")


def _read_token(content: bytes, name: str) -> str:
    """Return the token of a config and say what it is; "" where it cannot be used, and say why.

    A config that can be read on request alone is refused with a switch for that request.
    """
    try:
        try:
            token = config_token(content)
        except ConfigFileError as error:
            if not error.assume or not _asked_to_assume(error, content):
                raise
            token = config_token(content, error.assume)
        model = chosen_model(token)
    except ConfigFileError as error:
        st.error(
            plain(f"{name or 'This config cannot be used'}: {error.problem}"),
            icon=":material/block:",
        )
        return ""
    if model.config.assumption:
        st.warning(plain(model.config.assumption), icon=":material/warning:")
    scheme = model.scheme
    shown = "no scheme that is drawn" if scheme is None else f"{scheme.label}, {numbers_of(model)}"
    read = f"{model.preset.label}, {model.config.layers:,} layers, {shown}"
    st.caption(plain(f"Read, but not used yet: {read}. Press Use this config to see its numbers."))
    return token


def _asked_to_assume(error: ConfigFileError, content: bytes) -> bool:
    """Draw the switch that reads a refused config all the same, off until somebody turns it."""
    unknown = error.key.endswith("model_type")
    return st.toggle(
        "Read it as a Llama model" if unknown else "Ignore what is named above",
        # What was asked for one config is not asked for the next.
        key=f"assume_{hashlib.sha256(content).hexdigest()[:16]}",
        help="Its numbers then rest on that assumption, which stands above them and in the link.",
    )
