"""Choices from more than a list: a model, a learned table; each in a menu made when it is opened.

Of a pasted or uploaded config only its token is kept, which holds the keys that bear on position; of an
uploaded checkpoint only the table.
"""

import contextlib
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import streamlit as st

from dashboard import models, run_descriptions, session, tables
from dashboard.server import settings, uploaders
from dashboard.settings import Setting, chosen_model
from dashboard.settings.setting import MAX_SCHEMES
from dashboard.text import plain
from dashboard.visitor_files import cache_table
from posenc import limits
from posenc.checkpoints import find_position_tables, hub_table, read_header
from posenc.checkpoints.position_table import PositionTable, read_position_table
from posenc.checkpoints.sources import named_table
from posenc.errors import CheckpointError, ConfigFileError, PickleRefused
from posenc.models import config_token
from posenc.models.presets import MODELS
from posenc.schemes import SCHEMES
from posenc.schemes.base import SchemeConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.trainable import INITIAL, TrainableConfig
from posenc.text import printable_name

HUB_SECONDS = 15.0  # that a visitor waits for the Hub at most
_REFUSED = "_refused_config"  # what the page says of it
MOST_OWN = 8  # configs and tables of a session that stay to choose from


def draw(
    name: str,
    setting: Setting,
    place: Any = st,
    none: str = "none",
    width: int | Literal["stretch"] = "stretch",
    has_panels: bool = True,
) -> None:
    """Draw the menu of a model or a learned table, named by what is chosen.

    none: what the choice of no model is called. width: of the closed menu, in CSS pixels. has_panels:
    whether the page has a panel for each scheme, so that a sentence says which shows the model.
    """
    if name == "model":
        model, table = setting.real_model, None
        label = f"Model: {_in_label(none if model is None else model.preset.label)}"
    else:
        model, table = None, setting.learned_source
        label = f"Learned table: {_in_label(run_descriptions.table_name(table))}"
    menu = place.popover(label, key=f"{name}_menu", width=width, on_change="rerun")
    if menu.open:
        with menu:
            _model(setting, none) if table is None else _table(table)
    try:
        if table is not None and table != "random":
            named_table(table)  # raises where it is not here
        elif model is not None and has_panels:
            place.caption(plain(models.place_of(setting, model)))
    except CheckpointError as error:
        place.warning(
            plain(f"{error} Nothing is shown in its place."), icon=":material/upload_file:"
        )


def _in_label(name: str) -> str:
    """Return a name as a label has it, with escapes only where it needs some: a screen reader says them."""
    return name if re.fullmatch(r"[A-Za-z0-9 .,()-]*", name) else plain(name)


def _choose(
    name: str,
    label: str,
    options: Sequence[str],
    value: str,
    named: Callable[[str], str],
    take: Callable[[str], None],
    help: str,
) -> None:
    """Draw a list; what is chosen stands in it though it may not be here any more."""
    key = f"{name}_list"
    session.show(key, value)
    st.selectbox(
        label, [*dict.fromkeys((*options, value))], key=key, format_func=named, help=help,
        on_change=lambda: take(st.session_state[key]),
    )  # fmt: skip


def _own(name: str) -> tuple[str, ...]:
    """Return the configs or tables of this session's own, the last ones."""
    own: tuple[str, ...] = st.session_state.get(f"_own_{name}", ())
    return own


def _remember(name: str, value: str) -> None:
    """Keep an own config or table to choose from, with fresh fields: its file leaves the memory."""
    st.session_state[f"_own_{name}"] = (*dict.fromkeys((*_own(name), value)),)[-MOST_OWN:]
    st.session_state["_taken"] = _taken() + 1


def _taken() -> int:
    """Return how many own configs and tables were taken so far."""
    taken: int = st.session_state.get("_taken", 0)
    return taken


# The model ------------------------------------------------------------------------------------


def _model(setting: Setting, none: str) -> None:
    """Draw the choice of the model, what it is, and what takes the visitor's own."""
    current = setting.model
    if current and current not in MODELS:
        st.session_state["_own_model"] = (*dict.fromkeys((*_own("model"), current)),)
    _choose(
        "model", "Model", ("", *_own("model"), *models.by_age()), current,
        lambda token: models.option(token) if token else none.capitalize(), take_model,
        "A real model: its numbers stand in the panel of its scheme. A check mark: every number was "
        "checked against its source.",
    )  # fmt: skip
    model = setting.real_model
    if model is not None:
        scheme = model.scheme
        if scheme is not None and scheme.kind not in setting.schemes:
            _offer(scheme, full=len(setting.schemes) >= MAX_SCHEMES)
        for text in (
            models.about(model),
            models.other_layers(model),
            *model.config.assumed,
            *models.other_facts(model),
        ):
            if text:
                st.caption(plain(text))
    _own_model()


def _offer(scheme: SchemeConfig, *, full: bool) -> None:
    """Offer to show a model's scheme. full: whether one must be removed first."""
    st.button(
        f"Show {scheme.label}", key="show_scheme", on_click=_show_scheme, args=(scheme.kind,),
        disabled=full, icon=":material/add:", help="Remove a scheme first." if full else None,
    )  # fmt: skip


@session.callback
def _show_scheme(kind: str) -> None:
    session.change({"schemes": _with(kind)})


def _with(kind: str) -> tuple[str, ...]:
    """Return the schemes that are shown, with another one if there is room."""
    shown = session.current().setting.schemes
    if len(shown) >= MAX_SCHEMES:
        return shown
    return tuple(name for name in SCHEMES if name in (*shown, kind))


@session.callback
def take_model(token: str) -> None:
    """Choose a model, its scheme one of those that are shown, if there is room."""
    st.session_state[_REFUSED] = ""
    changes: dict[str, Any] = {"model": token}
    scheme = chosen_model(token).scheme if token else None
    if scheme is not None:
        changes["schemes"] = _with(scheme.kind)
    # A random start is the one choice that has the model's shape.
    if isinstance(scheme, LearnedConfig) and (
        session.current().setting.learned_source == "trained"
    ):
        changes["learned_source"] = "random"
    if isinstance(scheme, TrainableConfig):
        changes[f"{scheme.kind}.source"] = INITIAL
    session.change(changes)


def refused_config() -> str:
    """Return what the page says first once a config was refused, "" for none and once a model is chosen.

    The menu says it too, but closes; the page below it is still that of the model before.
    """
    sentence: str = st.session_state.get(_REFUSED, "")
    return sentence


def _own_model() -> None:
    """Draw what takes the visitor's own config, and what it would be read as."""
    text = st.text_area(
        "Or paste a config.json", key=f"config_text_{_taken()}", height=120,
        max_chars=limits.MAX_CONFIG_BYTES, placeholder='{"model_type": "llama", ...}',
        help="The link holds the keys about position and nothing else of the file.",
    )  # fmt: skip
    file = uploaders.uploader(
        st, "Or upload its config.json", key=f"config_file_{_taken()}",
        help="A checkpoint does not say the settings of RoPE or ALiBi.",
        most_mb=limits.MAX_CONFIG_BYTES // 2**20,
    )  # fmt: skip
    st.button(
        "Use this config", key="use_config", icon=":material/check:", on_click=_use_config,
        args=(None if file is None else file.getvalue(),),
    )  # fmt: skip
    content = text.encode("utf-8", "replace") if file is None else file.getvalue()
    st.session_state[_REFUSED] = ""
    if not content:
        return
    try:
        model = chosen_model(_token(content, _ask))
    except ConfigFileError as error:
        name = "This config cannot be used" if file is None else printable_name(file.name)
        why = f"{name}: {error.problem}"
        st.error(plain(why), icon=":material/block:")
        st.session_state[_REFUSED] = f"This page does not show your model. {why}"
        return
    if model.config.assumption:
        st.warning(plain(model.config.assumption), icon=":material/warning:")
    st.caption(plain(models.read_as(model)))


def _token(content: bytes, allowed: Callable[[ConfigFileError, bytes], bool]) -> str:
    """Return the token of a config. Raises ConfigFileError where it cannot be used.

    allowed: returns whether a config that can be read on request alone is read all the same.
    """
    try:
        return config_token(content)
    except ConfigFileError as error:
        if not (error.assume and allowed(error, content)):
            raise
        return config_token(content, error.assume)


def _ask(error: ConfigFileError, content: bytes) -> bool:
    """Draw the switch that reads a refused config all the same, off until somebody turns it."""
    unknown = error.key.endswith("model_type")
    return st.toggle(
        "Read it as a Llama model" if unknown else "Ignore what is named above",
        key=_assumption_key(content),
        help="Its numbers then rest on that assumption, which stands above them and in the link.",
    )


def _was_asked(error: ConfigFileError, content: bytes) -> bool:
    """Return what the switch says."""
    return bool(st.session_state.get(_assumption_key(content)))


def _assumption_key(content: bytes) -> str:
    """Return the key of a switch: what was asked for one config is not asked for the next."""
    return f"assume_{hashlib.sha256(content).hexdigest()[:16]}"


@session.callback
def _use_config(uploaded: bytes | None) -> None:
    """Choose the config of the field, or of the file; where it cannot be used, the menu says why."""
    text: str = st.session_state[f"config_text_{_taken()}"]
    content = text.encode("utf-8", "replace") if uploaded is None else uploaded
    try:
        token = chosen_model(_token(content, _was_asked)).token
    except ConfigFileError:
        return
    _remember("model", token)
    take_model(token)


# The learned table ----------------------------------------------------------------------------


def _table(source: str) -> None:
    """Draw the choice of the learned table, what it is, and what takes the visitor's own."""
    options = tables.available(_own("learned_source"))
    names = run_descriptions.table_names((*dict.fromkeys((*options, source)),))
    _choose(
        "learned_source", "Learned table", options, source, names.__getitem__,
        lambda name: session.change({"learned_source": name}),
        "The table of a trained model, or a random start.",
    )  # fmt: skip
    with contextlib.suppress(CheckpointError):  # the warning beside the menu says so
        for fact in tables.facts(source):
            st.caption(plain(fact))
    if settings.current().hub:
        _hub()
    file = uploaders.uploader(
        st, "Upload a checkpoint (.safetensors)", key=f"table_file_{_taken()}",
        help="Only the position table stays in memory; the file is discarded.",
    )  # fmt: skip
    if file is not None:
        _upload(file.getvalue(), printable_name(file.name))


def _hub() -> None:
    """Draw what fetches a table from the Hub: only where it is enabled, only when asked."""
    st.text_input(
        "Model on the Hub", key="hub_model", max_chars=200, placeholder="openai-community/gpt2",
        help="Fetches only this tensor of model.safetensors.",
    )  # fmt: skip
    st.text_input("Tensor, if there are several", key="hub_tensor", max_chars=256)
    st.button("Fetch table", key="hub_fetch", icon=":material/download:", on_click=_fetch)


@session.callback
def _fetch() -> None:
    model = st.session_state["hub_model"].strip()
    tensor = st.session_state["hub_tensor"].strip()
    try:
        with st.spinner("Asking the Hub"):
            _use_table(hub_table(model, tensor or None, seconds=HUB_SECONDS))
    except CheckpointError as error:
        session.tell(f"{printable_name(model)}: {error}")


def _upload(content: bytes, name: str) -> None:
    """Offer the position tables of a file; one is read once that is asked for."""
    try:
        candidates = find_position_tables(read_header(content))
    except PickleRefused as error:
        st.error(plain(f"{name}: {error.sentence}"), icon=":material/block:")
        st.code(error.conversion, language="python", wrap_lines=True)
        return
    except CheckpointError as error:
        st.error(plain(f"{name}: {error}"), icon=":material/block:")
        return
    chosen = candidates[0]
    if len(candidates) > 1:
        chosen = st.selectbox(
            "Several position tables", candidates, format_func=tables.candidate,
            key="table_of_file",
        )  # fmt: skip
    st.button(
        "Use this table", key="use_upload", on_click=_use_upload, args=(content, chosen.name, name)
    )
    st.caption(plain(tables.candidate(chosen)))


@session.callback
def _use_upload(content: bytes, tensor: str, name: str) -> None:
    try:
        _use_table(read_position_table(content, tensor, file_name=name))
    except CheckpointError as error:
        session.tell(f"{name}: {error}")


def _use_table(table: PositionTable) -> None:
    name = cache_table(table, uploaders.owner())
    _remember("learned_source", name)
    session.change({"learned_source": name})
