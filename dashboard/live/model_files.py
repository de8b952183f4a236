"""The parts of Inside a model that need a running server: what takes captured vectors and checkpoints."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard import session, visitor_weights
from dashboard.live.checking import upload_next
from dashboard.live.taking import (
    Change,
    Kept,
    draw_refusal,
    refuse,
    take,
    uploader_key,
)
from dashboard.pickers import HUB_SECONDS
from dashboard.server import settings, uploaders
from dashboard.visitor_weights import VisitorWeights, cache_weights, cached_weights
from posenc.checkpoints import hub_checkpoint
from posenc.errors import PosencError
from posenc.text import printable_name

# In the order in which they are asked for: option, label, help.
CAPTURED = (
    (
        "queries",
        "Captured queries (.npy or .safetensors)",
        "Of one layer, before the rotation: heads x tokens x features, one array in the file. Not saved in "
        "links.",
    ),
    (
        "keys",
        "Captured keys (.npy or .safetensors)",
        "heads of keys x tokens x features, of the same tokens. Query heads in turn share a head of keys.",
    ),
)


def upload_captured(
    place: Any, change: Change, *, mark: str, refused: bool, uploaded: Sequence[str]
) -> None:
    """Draw the uploader of queries, then of keys. mark, refused, uploaded: as of `upload_logits`."""
    upload_next(place, change, CAPTURED, mark=mark, refused=refused, uploaded=uploaded)


def upload_weights(
    place: Any, change: Change, *, mark: str, refused: bool, weights: str, layer: int
) -> None:
    """Draw the uploader of a checkpoint, or of its next part, and what fetches a layer from the Hub.

    weights: the name of those that are chosen, "" for none. layer: the chosen one, from 0.
    """
    key = uploader_key("inside_checkpoint")
    uploaders.draw(
        place,
        "Upload a checkpoint (.safetensors)",
        key=key,
        help="A whole checkpoint or, one after the other, its parts, such as "
        "model-00001-of-00002.safetensors. Only its query and key projections stay in memory. Not saved in "
        "links.",
        on_change=take_weights,
        args=(change, key, mark, weights),
    )
    if settings.current().hub:
        row = place.container(horizontal=True, vertical_alignment="bottom")
        row.text_input(
            "Model on the Hub", key="hub_checkpoint", max_chars=200,
            placeholder="Qwen/Qwen2.5-0.5B", width=320,
            help="Fetches only the query and key projections of the chosen layer.",
        )  # fmt: skip
        row.button(
            "Fetch layer", key="hub_layer", icon=":material/download:", on_click=fetch_layer,
            args=(change, mark, weights, layer),
        )  # fmt: skip
    if refused:
        draw_refusal(place)


@session.callback
def take_weights(change: Change, key: str, mark: str, weights: str) -> None:
    """Keep the projections of a file with those of the other parts, and choose them."""

    def keep(name: str, content: bytes, _: str) -> Kept:
        new = visitor_weights.of_file(name, content, _before(weights))
        return Kept(cache_weights(new, uploaders.owner()))

    take(change, key, mark, "weights", keep)


@session.callback
def fetch_layer(change: Change, mark: str, weights: str, layer: int) -> None:
    """Fetch the projections of a layer from the Hub, and choose them with those fetched before."""
    name = st.session_state["hub_checkpoint"].strip()
    model = session.current().setting.real_model
    if model is None or not 0 <= layer < model.config.layers:
        session.tell(
            "Choose the model first, and one of its layers: its config says what to fetch."
        )
        return
    try:
        with st.spinner("Asking the Hub"):
            new = visitor_weights.of_layers(
                hub_checkpoint(name, seconds=HUB_SECONDS),
                visitor_weights.layers_of(model.config, layer),
                _before(weights),
            )
        kept = cache_weights(new, uploaders.owner())
    except PosencError as error:
        refuse(change, mark, printable_name(name) or "The Hub", error)
        return
    change({"weights": kept, "refused": ""})


def _before(weights: str) -> VisitorWeights | None:
    return cached_weights.get(weights) if weights in cached_weights else None
