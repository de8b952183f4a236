"""The learned table: of a run that ships or was made here, of an installed package, an upload."""

import functools

import streamlit as st

from dashboard import run_descriptions, runs
from dashboard.controls import uploads
from dashboard.controls.widgets import button, show, take_value
from dashboard.server import settings
from dashboard.text import plain
from dashboard.visitor_files import cache_table, cached_tables
from posenc import fields
from posenc.checkpoints import find_position_tables, hub_table, minilm_table, read_header
from posenc.checkpoints.position_table import Candidate, PositionTable, read_position_table
from posenc.checkpoints.sources import TRAINED, named_table
from posenc.errors import CheckpointError, PickleRefused
from posenc.text import printable_name

HUB_SECONDS = 15.0  # that a visitor waits for the Hub at most
NAMES = {
    "trained": "From a small language model that comes with posenc.",
    "random": "A random start, untrained.",
    "minilm": "The trained table of all-MiniLM-L6-v2, 512 x 384.",
}


@functools.cache
def minilm_installed() -> bool:
    """Whether the package with a real trained table is on this machine."""
    return minilm_table() is not None


def available() -> tuple[str, ...]:
    """Return the names of the tables that this session can choose, all of them held right now."""
    uploaded: tuple[str, ...] = st.session_state.get("uploaded_tables", ())
    asked: str = st.session_state.get("learned_source", "")
    candidates = (*uploaded, asked) if asked.startswith("table-") else uploaded
    packaged = ("minilm",) if minilm_installed() else ()
    cached = (name for name in candidates if name.startswith("table-") and name in cached_tables)
    shown = runs.all_ids()
    trained = (f"run-{name}" for name in runs.with_learned_table(shown) if name != TRAINED)
    return tuple(dict.fromkeys(("trained", "random", *packaged, *cached, *trained)))


def picker(rule: fields.Rule) -> None:
    """Draw the choice of the learned table, and the upload that adds to it."""
    chosen = st.session_state["learned_source"]
    # Remembered, so that a link's table stays among the options when the link changes. One that is not
    # here stays the choice, too: another table would not be what the link shows.
    st.session_state["uploaded_tables"] = tuple(dict.fromkeys((*available(), chosen)))
    show("learned_source_control", chosen)
    st.selectbox(
        rule.label,
        st.session_state["uploaded_tables"],
        key="learned_source_control",
        format_func=run_descriptions.table_names(st.session_state["uploaded_tables"]).__getitem__,
        help=rule.help,
        on_change=take_value,
        args=("learned_source", "learned_source_control"),
    )
    try:
        st.caption(_label(chosen))
        for note in _notes(chosen):
            st.caption(plain(note))
    except CheckpointError as error:
        st.warning(plain(f"{error} Nothing is shown in its place."), icon=":material/upload_file:")
    if settings.current().hub:
        _hub()
    drawer = st.expander("Upload a table", key="upload_table", on_change="rerun")
    if drawer.open:
        with drawer:
            _upload()


def _hub() -> None:
    """Draw what fetches a table from the Hub: only where it is enabled, only when asked."""
    drawer = st.expander("From the Hugging Face Hub", key="hub_table", on_change="rerun")
    if not drawer.open:
        return
    with drawer:
        model = st.text_input(
            "Model on the Hub", key="hub_model", max_chars=200, placeholder="openai-community/gpt2",
            help="Fetches only this tensor of model.safetensors.",
        ).strip()  # fmt: skip
        tensor = st.text_input("Tensor, if there are several", key="hub_tensor", max_chars=256)
        if not button(st, "Fetch table", key="hub_fetch", icon=":material/download:"):
            return
        try:
            with st.spinner("Asking the Hub"):
                table = hub_table(model, tensor.strip() or None, seconds=HUB_SECONDS)
        except CheckpointError as error:
            st.error(plain(f"{printable_name(model)}: {error}"), icon=":material/block:")
            return
        _choose(table)


def _label(source: str) -> str:
    """Return what a person calls this table."""
    if source in NAMES:
        return NAMES[source]
    rows, width = named_table(source).table.shape
    what = "Learned by another small model" if source.startswith("run-") else "An uploaded table"
    return f"{what}, {rows} x {width}."


def _upload() -> None:
    """Draw the upload of a checkpoint, whose table is read once that is asked for."""
    file = uploads.uploader(
        st,
        "Checkpoint (.safetensors)",
        key=f"upload_{st.session_state.get('uploads', 0)}",
        help="Only the position table stays in memory; the file is discarded.",
    )
    if file is None:
        return
    content, name = file.getvalue(), printable_name(file.name)
    try:
        candidates = find_position_tables(read_header(content))
        chosen = candidates[0]
        if len(candidates) > 1:
            chosen = st.selectbox(
                "Several position tables",
                candidates,
                format_func=_candidate_label,
                key="use_upload_which",
            )
        if button(st, "Use this table", key="use_upload"):
            _choose(read_position_table(content, chosen.name, file_name=name))
        st.caption(plain(_candidate_label(chosen)))
    except PickleRefused as error:
        st.error(plain(f"{name}: {error.sentence}"), icon=":material/block:")
        st.code(error.conversion, language="python", wrap_lines=True)
    except CheckpointError as error:
        st.error(plain(f"{name}: {error}"), icon=":material/block:")


def _choose(table: PositionTable) -> None:
    name = cache_table(table, uploads.owner())
    st.session_state["uploaded_tables"] = (*available(), name)
    # A fresh uploader, so that the file's bytes leave the session's memory.
    st.session_state["uploads"] = st.session_state.get("uploads", 0) + 1
    st.session_state["learned_source"] = name
    st.rerun()


def _candidate_label(candidate: Candidate) -> str:
    return f"{printable_name(candidate.name)}: {candidate.rows} x {candidate.width}"


def _notes(source: str) -> tuple[str, ...]:
    """Say what else is known of a table: of one learned here the model, of another what its file says."""
    sentence = run_descriptions.table_description(source)
    if sentence:
        return (sentence,)
    return () if source == "random" else named_table(source).notes
