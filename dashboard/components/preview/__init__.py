"""The part of a live preview that acts in the browser; `dashboard.previews` makes the pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

_FOLDER = Path(__file__).parent
_preview = st.components.v2.component(
    "posenc_preview", js=(_FOLDER / "preview.js").read_text(encoding="utf-8")
)


def follow(data: Mapping[str, Any]) -> None:
    """Let matrices and clocks follow sliders while they move. data: of `previews.following`."""
    _preview(key="preview", data=dict(data))
