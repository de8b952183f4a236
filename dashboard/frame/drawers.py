"""The row of drawers under a page: how to read it, definition, data, code and the glossary.

A page says what they hold; it is drawn and sent once a visitor opens the drawer.
"""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from dashboard import run_results
from dashboard.charts import csv_file
from dashboard.frame import page_contents
from dashboard.frame.export import file_name
from dashboard.server import incidents

HOW_TO_READ, DEFINITION, DATA, CODE, GLOSSARY = (
    "How to read", "Definition", "Data", "Code", "Glossary",
)  # fmt: skip
ICONS = {
    HOW_TO_READ: "visibility",
    DEFINITION: "function",
    DATA: "table",
    CODE: "code",
    GLOSSARY: "menu_book",
}
KEY = "drawers"
# Terms that pages use without a definition beside them.
TERMS = {
    "A and B": "Two settings that are compared: A is pinned, B is the current one. "
    "A difference is B minus A.",
    "Base": "The number that sets the frequencies of sinusoidal and RoPE; 10,000 in the papers.",
    "Causal mask": "Hides later tokens: a query sees the key at its own position and those before it.",
    "Equivariant": "Reordering the inputs reorders the outputs and changes nothing else. "
    "Invariant: reordering the inputs changes nothing at all.",
    "Explained variance": "The share of the variance of vectors (their spread around the mean) along a "
    "component. Shares of several components add up.",
    "Extrapolation": "Use of a model on texts longer than its training length.",
    "Frequency": "Radians per token by which a pair rotates. Pair 0 is the fastest.",
    "Head": "One of the parallel attentions of a layer. ALiBi gives each head its own slope.",
    "Holds, degrades, breaks": "How a model does past its training length, at its worst longer context. "
    + f"{run_results.rules()} {run_results.rules_in_percent()}",
    "Hook": "One of the three places where a scheme acts on attention: embed changes token vectors, rotate "
    "changes queries and keys, bias is added to logits.",
    "Logit": "The score of a query and a key. Softmax turns the logits of a query into attention weights.",
    "Loss": "Minus the logarithm of the probability that a model assigns to the correct next token, as a "
    "mean over tokens. Lower is better. The small models here read bytes, so it is per byte.",
    "Model dimension": "Entries in the vector of a token. RoPE acts on the dimensions per head instead.",
    "Nats": "Unit of a loss in natural logarithms. 1 nat is 1.44 bits.",
    "NoPE": "No positional encoding: attention that has no position at all.",
    "Offset": "Query position minus key position, with its sign; the distance is without it.",
    "Of the largest entry": "A change divided by the largest magnitude before the change: 1 is a change as "
    "large as that entry. Of the largest logit: the same of logits.",
    "Pair": "Two dimensions that share a frequency: a sine and a cosine, or one rotation.",
    "Perplexity": "The exponential of the loss: 2 means as unsure as between 2 equally likely tokens.",
    "Position kernel": "The part of the attention logit or weight that positions decide when content is "
    "fixed, for every query and key.",
    "Position similarity": "The position kernel scaled to 1 where query and key have the same position.",
    "Query and key": "Two vectors of each token. A token attends to another by the logit of its own query "
    "and the other's key.",
    "Residual": "What a fit leaves unexplained, relative to what it should explain: 0 is exact, 1 is no "
    "better than predicting zero.",
    "Rounding step (eps)": "The distance from 1 to the next larger number of a format, "
    "1.2\u00a0×\u00a010⁻⁷ in float32. An error in rounding steps is relative.",
    "Training length": "Tokens of the longest text in training. Training shows no position past it.",
    "Wavelength": "Tokens until a pair completes one turn: 2 pi over its frequency.",
}


@st.fragment
@incidents.show_errors()
def draw() -> None:
    """Draw the row and what is open of it; to open a drawer does not run the page again."""
    contents = page_contents.current()
    drawers = contents.drawers | {GLOSSARY: _glossary}
    if contents.tables:
        drawers[DATA] = _data
    names = [name for name in ICONS if name in drawers]
    open_before = st.session_state.get(KEY, [])
    if not {*open_before} <= {*names}:  # another page has other drawers
        st.session_state[KEY] = [name for name in open_before if name in names]
    opened = st.pills(
        "About this page",
        names,
        selection_mode="multi",
        format_func=lambda name: f":material/{ICONS[name]}: {name}",
        key=KEY,
        label_visibility="collapsed",
    )
    for name in names:
        if name in opened:
            with st.container(border=True):
                drawers[name]()


def _glossary() -> None:
    st.markdown("\n".join(f"- **{term}**: {meaning}" for term, meaning in TERMS.items()))


def _data() -> None:
    contents = page_contents.current()
    tables = contents.tables
    for name, make in tables.items():
        key = f"numbers_{contents.table_keys.get(name, name).replace(' ', '_')}"
        title = name[:1].upper() + name[1:]
        drawer = st.expander(title, len(tables) == 1, key=key, on_change="rerun", type="compact")
        if drawer.open:
            with drawer:
                _table(name, make)


def _table(name: str, make: Callable[[], pd.DataFrame]) -> None:
    frame = make()
    st.dataframe(frame, hide_index=True, height=260)
    st.download_button(
        "Download CSV",
        csv_file.written(frame),
        file_name=f"posenc-{file_name(name)}.csv",
        mime="text/csv",
        key=f"csv_{name.replace(' ', '_')}",
        on_click="ignore",
        icon=":material/download:",
    )
