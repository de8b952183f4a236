"""The part of a live preview that acts in the browser; `dashboard.previews` makes the pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

_FOLDER = Path(__file__).parent
# Streamlit takes the code as one text.
_SCRIPT = "".join(
    (_FOLDER / name).read_text(encoding="utf-8") for name in ("charts.js", "preview.js")
)
_preview = st.components.v2.component("posenc_preview", js=_SCRIPT)


def follow(data: Mapping[str, Any]) -> None:
    """Let pictures follow sliders while they move. data: of `previews.following`."""
    _preview(key="preview", data=dict(data))
