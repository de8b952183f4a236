"""The drawer of Extend a model's context with what inference engines make of the model's config."""

from collections.abc import Sequence

import pandas as pd

from dashboard.blocks import Block, Drawer, Table, Text
from dashboard.pages.extend_context import model
from dashboard.settings import chosen_model
from dashboard.text import plain
from posenc.models.engines import SOURCES, EngineReading, engine_readings
from posenc.models.engines.engine_words import difference_sentences, engine_rows
from posenc.schemes.rope import RopeConfig

_INTRODUCTION = (
    "The config of this model as six engines read it, for a text of {length:,} tokens. Each rule is that "
    "of the release named. transformers 5 was run; the files of the others were read. A star marks what "
    "differs from transformers 5."
)
_SAME = "No engine whose rules were read differs from transformers 5."


def drawer(token: str, length: int) -> list[Block]:
    """Return the drawer, nothing for a model without a config or without RoPE.

    token: of the model. length: of the text, in tokens.
    """
    keys, assume = model.config_keys(token)
    if not keys or not isinstance(chosen_model(token).layer_kind.scheme, RopeConfig):
        return []

    def make() -> list[Block]:
        readings = engine_readings(keys, length, assume=assume)
        return _blocks(readings, chosen_model(token).config.read_as, length)

    title = "What each engine makes of the model's own config"
    return [Drawer("plan_engines", title, make, icon="compare_arrows")]


def _blocks(readings: Sequence[EngineReading], model_type: str, length: int) -> list[Block]:
    sentences = difference_sentences(readings) or [_SAME]
    sources = [
        f"- {plain(name)}, {plain(source.release)}: {_links(name, model_type)}"
        for name, source in SOURCES.items()
    ]
    return [
        Text(_INTRODUCTION.format(length=length), "caption"),
        Table(_table(engine_rows(readings)), key="engines"),
        Text("\n".join(f"- {plain(sentence)}" for sentence in sentences), both="engines"),
        Text("\n".join(["Sources:\n", *sources]), "caption"),
    ]


def _table(rows: Sequence[dict[str, str]]) -> pd.DataFrame:
    """Return a table with a column for each engine, which is drawn as a row."""
    others = [name for name in rows[0] if name not in ("engine", "layers")]
    frame = pd.DataFrame({"": [plain(name) for name in others]})
    for row in rows:
        layers = f", {row['layers']}" if "layers" in row else ""
        frame[plain(f"{row['engine']}{layers}")] = [plain(row[name]) for name in others]
    return frame


def _links(name: str, model_type: str) -> str:
    source = SOURCES[name]
    pairs = zip(source.paths(model_type), source.links(model_type), strict=True)
    return ", ".join(f"[{plain(path)}]({link})" for path, link in pairs)
