"""The part of Extend that takes another config.json, with which the model's own is compared."""

from typing import Any

import streamlit as st

from dashboard import session
from dashboard.live.taking import TAKEN, Change, uploader_key
from dashboard.server import uploaders
from dashboard.settings import chosen_model
from dashboard.text import plain
from posenc import limits
from posenc.errors import ConfigFileError
from posenc.models import config_token


def paste(place: Any, change: Change) -> None:
    """Draw what takes the config, why it cannot be used, or the button that compares with it."""
    text_key = uploader_key("other_config_text")
    text = place.text_area(
        "Or paste its config.json", key=text_key, height=120, max_chars=limits.MAX_CONFIG_BYTES,
        placeholder='{"model_type": "llama", ...}',
        help="The link holds the keys about position and nothing else of the file.",
    )  # fmt: skip
    file = uploaders.uploader(
        place, "Or upload it", key=uploader_key("other_config_file"), help="A config.json.",
        most_mb=limits.MAX_CONFIG_BYTES // 2**20,
    )  # fmt: skip
    content = text.encode("utf-8", "replace") if file is None else file.getvalue()
    if not content:
        return
    try:
        token = chosen_model(config_token(content)).token
    except ConfigFileError as error:
        place.error(plain(f"This config cannot be used: {error.problem}"), icon=":material/block:")
        return
    place.button(
        "Compare with this config", key="use_other_config", icon=":material/check:", on_click=_use,
        args=(change, token),
    )  # fmt: skip


@session.callback
def _use(change: Change, token: str) -> None:
    st.session_state[TAKEN] = st.session_state.get(TAKEN, 0) + 1  # with fresh fields
    change({"against": token})
